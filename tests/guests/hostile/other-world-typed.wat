;; other-world-typed: it says itself that its handler is that of another version of the contract.
;;@ wit package test:guest;
;;@ wit world guest { export hark:plugin/handler@0.2.0; }
;;@ wit package hark:plugin@0.2.0 { interface handler { describe: func() -> u32; } }
(module
    (memory (export "memory") 1)
    (func (export "hark:plugin/handler@0.2.0#describe") (result i32) (i32.const 64)))
