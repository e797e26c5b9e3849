;; many-memories: it has 91 memories.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    ;;@ repeat 90
    (memory $more-{n} 0)
    ;;@ end
)
