;; start-spins: its start function never returns.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    (func $start (loop $again (br $again)))
    (start $start)
)
