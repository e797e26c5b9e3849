;; Not a guest: what the guests in WebAssembly text have in common, for `;;@ include handler.inc.wat`. It exports the
;; handler, whose three functions all give what `$event` gives, which a guest defines: the place of an answer, 64 for
;; ok. At 1024 is the description, all ConfigMaps, laid out by the canonical ABI; the allocator begins at 64 KiB.
;; The memory, of two pages at least, is the guest's to define.
    (data (i32.const 1024)
        "\00\00\00\00\34\04\00\00\07\00\00\00\3c\04\00\00\05\00\00\00\60\04\00\00\01\00\00\00\00\00\00\00"
        "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\68\6f\73\74\69\6c\65\00\30\2e\31\2e"
        "\30\00\00\00\63\6f\6e\66\69\67\6d\61\70\73\00\00\76\31\00\00\43\6f\6e\66\69\67\4d\61\70\00\00\00"
        "\44\04\00\00\0a\00\00\00\50\04\00\00\02\00\00\00\54\04\00\00\09\00\00\00\00\00\00\00\00\00\00\00"
        "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"
        "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"
        "\00\00\00\00")
    (global $heap (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
        (local $at i32)
        (local.set $at (global.get $heap))
        (global.set $heap
            (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
        (local.get $at))
    (func $handle (result i32)
        (global.set $heap (i32.const 65536))
        (call $event))
    (func (export "hark:plugin/handler@0.1.0#describe") (result i32) (i32.const 1024))
    (func (export "hark:plugin/handler@0.1.0#on-add")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (call $handle))
    (func (export "hark:plugin/handler@0.1.0#on-update")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (call $handle))
    (func (export "hark:plugin/handler@0.1.0#on-delete")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (call $handle))
