;; sleep-io-poll: sleeps an hour in a host call, with wasi:io/poll.
;;@ wit package test:guest;
;;@ wit world guest { import wasi:clocks/monotonic-clock@0.2.0; include hark:plugin/plugin@0.1.0; }
;;@ wit package wasi:io@0.2.0 { interface poll { resource pollable { block: func(); } } }
;;@ wit package wasi:clocks@0.2.0 { interface monotonic-clock {
;;@ wit     use wasi:io/poll@0.2.0.{pollable};
;;@ wit     subscribe-duration: func(nanoseconds: u64) -> pollable;
;;@ wit } }
(module
    (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $subscribe (param i64) (result i32)))
    (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32)
        (call $block (call $subscribe (i64.const 3600000000000)))
        (i32.const 64))
)
