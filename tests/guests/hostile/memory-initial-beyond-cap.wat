;; memory-initial-beyond-cap: its memory begins with a page more than it may have.
(module
    (memory (export "memory") 1025)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
)
