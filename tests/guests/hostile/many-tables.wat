;; many-tables: it has 90 tables.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    ;;@ repeat 90
    (table $table-{n} 0 funcref)
    ;;@ end
)
