;; table-initial-beyond-cap: its table begins with two million elements.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    (table $table 2000000 funcref)
)
