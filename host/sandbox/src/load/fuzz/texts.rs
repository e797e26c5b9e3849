//! Target `wat`: the text form, which only `hark dev` takes.

use std::time::Duration;

use hark_fuzz::{Bytes, Target};
use proptest::prelude::*;
use wasmtime::Engine;

use super::super::component_bytes;
use super::is_said_well;

/// What texts are made of.
const TOKENS: &[&str] = &[
    "(module",
    "(component",
    "(func",
    "(func $f",
    "(type",
    "(list",
    "(option",
    "(record (field \"a\"",
    "(block",
    "(loop",
    "(if",
    "(then",
    "(else",
    ")",
    ")",
    ")",
    "))",
    "(",
    "(param i32)",
    "(result i32)",
    "(local i64)",
    "i32.const",
    "i64.const",
    "f64.const",
    "0",
    "-1",
    "4294967296",
    "99999999999999999999999999",
    "0x1p99999",
    "nan:0x0",
    "(;",
    ";)",
    ";;\n",
    "\"a\"",
    "\"\\u{110000}\"",
    "\"\\ff\"",
    "\"\u{202e}\u{1b}[2J\"",
    "(memory 65536)",
    "(table 4294967295 funcref)",
    "(import \"a\" \"b\"",
    "(export \"hark:plugin/handler@0.1.0#describe\"",
    "(data (i32.const 0)",
    "(elem",
    "(global",
    "(start 0)",
    "(rec",
    "(sub",
    "(core module",
    "(core instance",
    "(canon lift",
    "(instance",
    "(@custom \"x\"",
    "(@name",
    "call 0",
    "drop",
    "\u{1b}]0;",
];

/// Tokens, each so many times: mostly once, sometimes as deep as a file may go.
fn input() -> impl Strategy<Value = Bytes> {
    let times = prop_oneof![9 => Just(1), 2 => 2_usize..20, 1 => 1000_usize..30_000];
    let token = (prop::sample::select(TOKENS.to_vec()), times)
        .prop_map(|(token, times)| format!("{token} ").repeat(times));
    let tokens = prop::collection::vec(token, 0..20).prop_map(|tokens| tokens.concat());
    let made = (prop::sample::select(vec!["(module ", "(component ", ""]), tokens);
    let made = made.prop_map(|(begin, tokens)| format!("{begin}{tokens}").into_bytes());
    let right = include_bytes!("../../../../../tests/guests/other-world.wat").to_vec();
    let changed = prop::collection::vec(hark_fuzz::edit(), 1..4)
        .prop_map(move |edits| edits.iter().fold(right.clone(), hark_fuzz::edited));
    prop_oneof![2 => made, 1 => changed].prop_map(Bytes)
}

#[test]
fn fuzz_wat() {
    let engine = Engine::default();
    let target = Target { name: "wat", cases: 400, within: Duration::from_secs(5) };
    hark_fuzz::files(target, input, |text| match component_bytes(&engine, text) {
        Ok(binary) => {
            prop_assert!(
                binary.len() <= 16 * text.len() + (256 << 10),
                "{} bytes became {}",
                text.len(),
                binary.len()
            );
            Ok(())
        }
        Err(error) => is_said_well(&error),
    });
}
