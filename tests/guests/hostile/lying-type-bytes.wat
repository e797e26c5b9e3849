;; lying-type-bytes: what it says of itself, in the section where it would, makes no sense.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    (@custom "component-type:guest" "\00asm\0d\00\01\00\07\ff\ff\ff\ff\0fnonsense")
)
