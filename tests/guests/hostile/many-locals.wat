;; many-locals: one of its functions has 50,000 local variables, which is all that there may be.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (drop (call $locals (i32.const 1))) (i32.const 64))
    (func $locals (param $first i32) (result i32)
        ;;@ repeat 49000
        (local i64)
        ;;@ end
        (local.get $first))
)
