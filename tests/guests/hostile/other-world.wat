;; other-world: its handler is that of another version of the contract.
(module
    (memory (export "memory") 1)
    (func (export "hark:plugin/handler@0.2.0#describe") (result i32) (i32.const 64))
    (func (export "hark:plugin/handler@0.2.0#on-add") (result i32) (i32.const 64)))
