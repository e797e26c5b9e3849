;; failure-unknown: its handlers fail in a way that there is not: neither `retry` nor `permanent`.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32)
        (i32.store8 (i32.const 96) (i32.const 1))
        (i32.store8 (i32.const 100) (i32.const 9))
        (i32.const 96))
)
