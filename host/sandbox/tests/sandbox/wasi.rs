//! Guests that call WASI 0.2 themselves, without an adapter between them and the host.

use hark_sandbox::{LoadOptions, Plugin};
use wit_component::StringEncoding;
use wit_parser::Resolve;

use crate::support::{Guest, engine};

/// What such guests import here, as far as they use it.
pub(crate) const IMPORTS: &str = r#"
    (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
    (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
    (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
    (import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))
    (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $out (result i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.write-zeroes" (func $zeroes (param i32 i64 i32)))"#;

/// The parts of WASI that they are typed with.
const PACKAGES: [(&str, &str); 4] = [
    (
        "io.wit",
        "package wasi:io@0.2.0;
         interface poll { resource pollable { block: func(); } poll: func(all: list<borrow<pollable>>) -> list<u32>; }
         interface error { resource error; }
         interface streams {
             use error.{error};
             variant stream-error { last-operation-failed(error), closed }
             resource output-stream { write-zeroes: func(len: u64) -> result<_, stream-error>; }
         }",
    ),
    (
        "clocks.wit",
        "package wasi:clocks@0.2.0;
         interface monotonic-clock { use wasi:io/poll@0.2.0.{pollable}; subscribe-duration: func(after: u64) -> pollable; }",
    ),
    (
        "random.wit",
        "package wasi:random@0.2.0; interface random { get-random-bytes: func(len: u64) -> list<u8>; }",
    ),
    (
        "cli.wit",
        "package wasi:cli@0.2.0;
         interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }",
    ),
];

const WORLD: &str = "package test:guest;
    world test {
        include hark:plugin/plugin@0.1.0;
        import wasi:io/poll@0.2.0;
        import wasi:io/streams@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.0;
        import wasi:random/random@0.2.0;
        import wasi:cli/stdout@0.2.0;
    }";

/// A plugin whose `on-add` does this, with [`IMPORTS`] and a global `$n`, in so many pages of memory.
pub(crate) fn adding(add: &str, pages: usize) -> Plugin {
    let guest = Guest {
        imports: IMPORTS.into(),
        extra: "(global $n (mut i32) (i32.const 0))".into(),
        pages,
        ..Guest::adding(add)
    };
    typed(&guest, WORLD)
}

/// A guest that has [`IMPORTS`], and the export `lifecycle`.
pub(crate) fn stateful(guest: &Guest) -> Plugin {
    typed(guest, &WORLD.replace("plugin/plugin@", "plugin/stateful-plugin@"))
}

fn typed(guest: &Guest, world: &str) -> Plugin {
    let mut resolve = Resolve::default();
    resolve.push_path("../../wit").expect("our contract");
    for (name, package) in PACKAGES {
        resolve.push_str(name, package).expect("a package");
    }
    let package = resolve.push_str("test.wit", world).expect("a world");
    let world = resolve.select_world(&[package], Some("test:guest/test")).expect("the world");
    let text = guest.text();
    let mut module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("embeds");
    engine().load(&module, LoadOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Does something so many times, with `$n` counting up from 0.
pub(crate) fn times(count: usize, body: &str) -> String {
    format!(
        "(global.set $n (i32.const 0))
         (loop $times
            {body}
            (global.set $n (i32.add (global.get $n) (i32.const 1)))
            (br_if $times (i32.lt_u (global.get $n) (i32.const {count}))))"
    )
}

/// Stores a pollable at the place of number `$n` in the list at 3000.
pub(crate) fn list(pollable: &str) -> String {
    format!("(i32.store (i32.add (i32.const 3000) (i32.mul (global.get $n) (i32.const 4))) {pollable})")
}
