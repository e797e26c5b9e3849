;; answer-unknown: its handlers give an answer that is neither ok nor an error.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.store8 (i32.const 64) (i32.const 9)) (i32.const 64))
)
