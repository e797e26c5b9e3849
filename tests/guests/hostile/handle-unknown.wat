;; handle-unknown: waits for a handle that it does not have.
;;@ wit package test:guest;
;;@ wit world guest { import wasi:io/poll@0.2.0; include hark:plugin/plugin@0.1.0; }
;;@ wit package wasi:io@0.2.0 { interface poll { resource pollable { block: func(); } } }
(module
    (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32)
        (call $block (i32.const 12345))
        (i32.const 64))
)
