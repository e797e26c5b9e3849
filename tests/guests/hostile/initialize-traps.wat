;; initialize-traps: its `_initialize` traps, but where it is asked to describe itself.
(module
    (import "hark:plugin/cache@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (memory (export "memory") 2)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    ;; The cache answers `not-synced` while the plugin is asked to describe itself, and only then.
    (func (export "_initialize")
        (call $get (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 512))
        (if (i32.eqz (i32.load8_u (i32.const 512))) (then unreachable)))
)
