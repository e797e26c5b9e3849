;; answer-misaligned: its handlers give an answer that is not where an answer may be.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 65))
)
