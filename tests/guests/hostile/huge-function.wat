;; huge-function: one of its functions has 100,000 additions.
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (drop (call $huge (i32.const 1))) (i32.const 64))
    (func $huge (param $number i32) (result i32)
        (local $sum i32)
        ;;@ repeat 100000
        (local.set $sum (i32.add (i32.mul (local.get $sum) (local.get $number)) (i32.const {n})))
        ;;@ end
        (local.get $sum))
)
