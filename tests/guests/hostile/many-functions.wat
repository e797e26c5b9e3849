;; many-functions: it has 20,000 functions.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    ;;@ repeat 20000
    (func (result i32) (i32.const {n}))
    ;;@ end
)
