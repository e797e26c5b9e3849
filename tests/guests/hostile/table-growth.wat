;; table-growth: takes a table of two million elements.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (table $table 1 funcref)
    (func $event (result i32)
        (drop (table.grow $table (ref.null func) (i32.const 2000000)))
        (i32.const 64))
)
