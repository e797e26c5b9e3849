;; many-core-instances: a component with 300 instances of a module in it, more than an instance of it may have.
;;@ wit package test:guest;
;;@ wit world guest { include hark:plugin/plugin@0.1.0; }
;;@ instances 300
(module
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
)
