;; partial-lifecycle: exports `start` and `stop` of `lifecycle`, and not the rest.
(module
    (memory (export "memory") 2)
;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    (func (export "hark:plugin/lifecycle@0.1.0#start") (param i32) (result i32) (i32.const 64))
    (func (export "hark:plugin/lifecycle@0.1.0#stop") (param i32)))
