;; answer-beyond-memory: its handlers give an answer that is not in its memory.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 0x7ffffff0))
)
