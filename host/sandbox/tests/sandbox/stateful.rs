//! Guests with the export `lifecycle`, in WebAssembly text. Each says what it is called for, with the reason as the
//! contract numbers it, counts its events, saves the count in format `v1`, and restores it.

use crate::support::{Guest, OK};

/// Where its memory has what.
const NOTHING_SAID: &str = "(i32.const 8000)";
const SAVED: &str = "(i32.const 8064)";

/// Ends `start`, `save` and `restore` with an error, "not today".
pub(crate) const REFUSE: &str = "(return (i32.const 8032))";
/// Ends `save` with nothing to save.
pub(crate) const SAVE_NOTHING: &str = "(return (i32.const 8000))";
pub(crate) const TRAP: &str = "unreachable";
pub(crate) const SPIN: &str = "(loop $l (br $l))";
/// Says whether the cache is there.
pub(crate) const ASK: &str = "(call $ask)";

/// What each function does beside that; it may return.
#[derive(Default)]
pub(crate) struct Lives {
    pub(crate) start: String,
    pub(crate) stop: String,
    pub(crate) save: String,
    pub(crate) restore: String,
    pub(crate) synced: String,
    pub(crate) add: String,
    /// Further imports.
    pub(crate) imports: String,
}

/// Does something if the reason, or the subscription, is this.
pub(crate) fn on(number: u32, what: &str) -> String {
    format!("(if (i32.eq (local.get $n) (i32.const {number})) (then {what}))")
}

impl Lives {
    /// Does something at each start for one of these reasons.
    pub(crate) fn starting(reasons: &[u32], what: &str) -> Self {
        Self { start: reasons.iter().map(|reason| on(*reason, what)).collect(), ..Self::default() }
    }

    pub(crate) fn guest(&self) -> Guest {
        let Self { start, stop, save, restore, synced, add, imports } = self;
        let at = "hark:plugin/lifecycle@0.1.0#";
        Guest {
            imports: format!(
                r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
                (import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))
                (import "hark:plugin/cache@0.1.0" "get"
                    (func $get (param i32 i32 i32 i32 i32 i32 i32 i32)))
                {imports}"#
            ),
            extra: format!(
                r#"(data (i32.const 8032) "\01\00\00\00\d0\1f\00\00\09\00\00\00")
                (data (i32.const 8000) "\00\00\00\00\00\00\00\00")
                (data (i32.const 8064) "\00\00\00\00\01\00\00\00\c0\1f\00\00\02\00\00\00\c8\1f\00\00\01\00\00\00")
                (data (i32.const 8128) "v1")
                (data (i32.const 8144) "not today")
                (data (i32.const 8200) "start 0")
                (data (i32.const 8216) "stop 0")
                (data (i32.const 8232) "save 0")
                (data (i32.const 8248) "restore 0")
                (data (i32.const 8264) "synced 0")
                (data (i32.const 8280) "add 0")
                (data (i32.const 8296) "cache 0")
                (data (i32.const 8312) "attempt 0")
                (global $count (mut i32) (i32.const 0))
                (func $say (param $at i32) (param $len i32) (param $digit i32)
                    (i32.store8 (i32.sub (i32.add (local.get $at) (local.get $len)) (i32.const 1))
                        (i32.add (i32.const 48) (local.get $digit)))
                    (call $log (i32.const 2) (local.get $at) (local.get $len)))
                (func $ask
                    (call $get (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                        (i32.const 0) (i32.const 8400))
                    (call $say (i32.const 8296) (i32.const 7) (i32.eqz (i32.load8_u (i32.const 8400)))))
                (func $attempts (call $say (i32.const 8312) (i32.const 9) (call $attempt)))
                (func $start (export "{at}start") (param $n i32) (result i32)
                    (call $say (i32.const 8200) (i32.const 7) (local.get $n)) {start} {NOTHING_SAID})
                (func $stop (export "{at}stop") (param $n i32)
                    (call $say (i32.const 8216) (i32.const 6) (local.get $n)) {stop})
                (func $save (export "{at}save") (result i32)
                    (call $say (i32.const 8232) (i32.const 6) (global.get $count))
                    (i32.store8 (i32.const 8136) (global.get $count)) {save} {SAVED})
                (func $restore (export "{at}restore") (param $format i32) (param $format_len i32)
                    (param $data i32) (param $data_len i32) (result i32)
                    (global.set $count (i32.load8_u (local.get $data)))
                    (call $say (i32.const 8248) (i32.const 9) (global.get $count))
                    (if (i32.ne (i32.load16_u (local.get $format)) (i32.const 0x3176)) (then unreachable))
                    (if (i32.ne (local.get $format_len) (i32.const 2)) (then unreachable))
                    {restore} {NOTHING_SAID})
                (func $synced (export "{at}synced") (param $n i32)
                    (call $say (i32.const 8264) (i32.const 8) (local.get $n)) {synced})"#
            ),
            ..Guest::adding(&format!(
                "(global.set $count (i32.add (global.get $count) (i32.const 1)))
                (call $say (i32.const 8280) (i32.const 5) (global.get $count)) {add} {OK}"
            ))
        }
    }
}
