;; open-socket: asks for a TCP socket, and gives up with `socket refused` if it gets none.
;;@ wit package test:guest;
;;@ wit world guest { import wasi:sockets/tcp-create-socket@0.2.0; include hark:plugin/plugin@0.1.0; }
;;@ wit package wasi:sockets@0.2.0 {
;;@ wit     interface network {
;;@ wit         enum ip-address-family { ipv4, ipv6 }
;;@ wit         enum error-code { unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout,
;;@ wit             concurrency-conflict, not-in-progress, would-block, invalid-state, new-socket-limit,
;;@ wit             address-not-bindable, address-in-use, remote-unreachable, connection-refused, connection-reset,
;;@ wit             connection-aborted, datagram-too-large, name-unresolvable, temporary-resolver-failure,
;;@ wit             permanent-resolver-failure }
;;@ wit     }
;;@ wit     interface tcp { resource tcp-socket; }
;;@ wit     interface tcp-create-socket {
;;@ wit         use network.{ip-address-family, error-code};
;;@ wit         use tcp.{tcp-socket};
;;@ wit         create-tcp-socket: func(family: ip-address-family) -> result<tcp-socket, error-code>;
;;@ wit     }
;;@ wit }
(module
    (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $create (param i32 i32)))
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (data (i32.const 2048) "socket refused")
    (func $event (result i32)
        (call $create (i32.const 0) (i32.const 512))
        (if (i32.eqz (i32.load8_u (i32.const 512))) (then (return (i32.const 64))))
        ;; An error (1), permanent (1), and its text.
        (i32.store8 (i32.const 96) (i32.const 1))
        (i32.store8 (i32.const 100) (i32.const 1))
        (i32.store (i32.const 104) (i32.const 2048))
        (i32.store (i32.const 108) (i32.const 14))
        (i32.const 96))
)
