;; lifecycle-other-type: exports all functions of `lifecycle`, one of them with another type.
(module
    (memory (export "memory") 2)
;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    (func (export "hark:plugin/lifecycle@0.1.0#start") (param i64) (result i32) (i32.const 64))
    (func (export "hark:plugin/lifecycle@0.1.0#stop") (param i32))
    (func (export "hark:plugin/lifecycle@0.1.0#save") (result i32) (i32.const 64))
    (func (export "hark:plugin/lifecycle@0.1.0#restore") (param i32 i32 i32 i32) (result i32) (i32.const 64))
    (func (export "hark:plugin/lifecycle@0.1.0#synced") (param i32)))
