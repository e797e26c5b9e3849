;; deep-blocks: one of its functions has 20,000 blocks in each other.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (call $deep) (i32.const 64))
    (func $deep
        ;;@ repeat 20000
        block
        ;;@ end
        ;;@ repeat 20000
        end
        ;;@ end
    )
)
