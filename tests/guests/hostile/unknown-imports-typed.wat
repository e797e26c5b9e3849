;; unknown-imports-typed: it says itself that it needs functions that no host of ours has, from two places.
;;@ wit package test:guest;
;;@ wit world guest { import first; import second; import bare: func(); include hark:plugin/plugin@0.1.0; }
;;@ wit interface first { one: func(); two: func(); }
;;@ wit interface second { three: func(); }
(module
    (import "test:guest/first" "one" (func))
    (import "test:guest/first" "two" (func))
    (import "test:guest/second" "three" (func))
    (import "$root" "bare" (func))
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
)
