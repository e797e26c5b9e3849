//! Whole files, from which the targets make broken ones.

use std::sync::LazyLock;

use proptest::strategy::{Strategy, ValueTree};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER;

use super::worlds::{World, world};

type File = (String, Vec<u8>);

/// Core modules: without a world, with ours, with others; for wasip1; with other custom sections.
pub(super) fn modules() -> Vec<File> {
    static ALL: LazyLock<Vec<File>> = LazyLock::new(|| {
        let object = include_bytes!("../../../../../guest-sdk/c/plugin_component_type.o");
        let mut files = vec![
            ("bare".to_owned(), bare()),
            ("wasip1".to_owned(), wasip1()),
            ("adapter".to_owned(), ADAPTER.to_vec()),
            ("object".to_owned(), object.to_vec()),
        ];
        files.extend(
            worlds().into_iter().enumerate().map(|(n, world)| (format!("world-{n}"), world.module())),
        );
        files.extend(hark_fuzz::corpus().into_iter().filter(|(_, bytes)| bytes.get(4) == Some(&1)));
        files
    });
    ALL.clone()
}

/// Components: made of those worlds, nested, and one that is no plugin.
pub(super) fn components() -> Vec<File> {
    static ALL: LazyLock<Vec<File>> = LazyLock::new(|| {
        let other = include_bytes!("../../../../../tests/guests/other-world.wasm");
        let mut files = vec![("other-world".to_owned(), other.to_vec())];
        let made = |(n, world): (usize, World)| (format!("component-{n}"), component(&world.module()));
        files.extend(worlds().into_iter().enumerate().map(made));
        files.extend(hark_fuzz::corpus().into_iter().filter(|(_, bytes)| bytes.get(4) == Some(&0x0d)));
        files
    });
    ALL.clone()
}

/// Ours alone, and some that a fixed seed gives.
fn worlds() -> Vec<World> {
    let ours = "package test:guest;\nworld test { include hark:plugin/plugin@0.1.0; }\n";
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut next = || world().new_tree(&mut runner).expect("a world").current();
    let mut all = vec![World { text: ours.to_owned(), imports: false }];
    all.extend((0..6).map(|_| next()));
    all
}

/// The worlds in those modules, as they are encoded: each is a component of its own.
pub(super) fn encodings() -> Vec<File> {
    let of_file = |(name, module): File| {
        let sections = hark_fuzz::sections(&module).unwrap_or_default();
        let worlds =
            sections.into_iter().filter(|(number, content)| *number == 0 && content[1..].starts_with(WORLD));
        let encodings = worlds.filter_map(|(_, content)| {
            let start = content.windows(4).position(|magic| magic == b"\0asm")?;
            Some((name.clone(), content[start..].to_vec()))
        });
        encodings.collect::<Vec<_>>()
    };
    modules().into_iter().flat_map(of_file).collect()
}

/// How the name of a section begins that has a world in it.
const WORLD: &[u8] = b"component-type";

/// A module with a section for each of these worlds.
pub(super) fn with_worlds(encodings: &[&[u8]]) -> Vec<u8> {
    let mut module = bare();
    for (place, encoding) in encodings.iter().enumerate() {
        let name = format!("component-type:{place}");
        let mut content = vec![name.len() as u8];
        content.extend_from_slice(name.as_bytes());
        content.extend_from_slice(encoding);
        module.push(0);
        super::super::componentize::push_leb128(&mut module, content.len());
        module.extend_from_slice(&content);
    }
    module
}

/// The module of our own world without the world in it.
fn bare() -> Vec<u8> {
    let module = worlds()[0].module();
    let sections = hark_fuzz::sections(&module).expect("a module");
    let kept = sections
        .iter()
        .filter(|(number, content)| *number != 0 || !content.starts_with(b"\x0ecomponent-type"));
    let mut out = module[..8].to_vec();
    for (number, content) in kept {
        out.push(*number);
        super::super::componentize::push_leb128(&mut out, content.len());
        out.extend_from_slice(content);
    }
    out
}

/// The bare module's exports, and a call of wasip1.
fn wasip1() -> Vec<u8> {
    let target = "i32 i32 i32 i32 i32 i32 i32 i32 i32";
    let text = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "hark:plugin/handler@0.1.0#describe") (result i32) unreachable)
            (func (export "hark:plugin/handler@0.1.0#on-add") (param {target} i32 i32 i32) (result i32) unreachable)
            (func (export "hark:plugin/handler@0.1.0#on-update") (param {target} i32 i32 i32 i32 i32) (result i32) unreachable)
            (func (export "hark:plugin/handler@0.1.0#on-delete") (param {target} i32 i32 i32) (result i32) unreachable))"#
    );
    wat::parse_str(text).expect("right text")
}

fn component(module: &[u8]) -> Vec<u8> {
    let encoder = wit_component::ComponentEncoder::default().module(module).expect("a module");
    encoder.validate(true).encode().expect("a component")
}
