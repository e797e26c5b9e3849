;; lying-type: it says itself that it has a handler, and has a part of it only.
;;@ wit package test:guest;
;;@ wit world guest { include hark:plugin/plugin@0.1.0; }
(module
    (memory (export "memory") 1)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
    (func (export "hark:plugin/handler@0.1.0#describe") (result i32) (i32.const 64)))
