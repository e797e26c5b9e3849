;; start-traps: its start function traps.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    (func $start unreachable)
    (start $start)
)
