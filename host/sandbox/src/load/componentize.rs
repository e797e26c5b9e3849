//! Makes a component of a core module, in milliseconds.
//!
//! Takes three kinds: with a `component-type` section (as wit-bindgen leaves it), without one (then our own
//! world is put in, and the module's exports must be named by the canonical ABI), and either of them for
//! wasip1 (then the preview1 adapter is linked in). Invariant: the module is validated, and its worlds are
//! known to be within bounds (see `worlds`), before the encoder sees it.

use std::iter;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{Parser, Payload};
use wasmtime::{Engine, Module};
use wit_component::ComponentEncoder;

use super::LoadError;
use super::bounds;
use super::error::detail;
use super::exports::{FUNCTIONS, HANDLER};
use super::worlds;
use crate::bindings::COMPONENT_TYPE;
use crate::text;

/// What the encoder has to be told about a module.
#[derive(Debug, Default)]
struct Shape {
    exports: Vec<String>,
    /// `module.name` of what it imports from places that are no interface.
    foreign: Vec<String>,
    typed: bool,
    preview1: bool,
}

/// The component made of a core module.
pub(super) fn componentize(engine: &Engine, module: &[u8]) -> Result<Vec<u8>, LoadError> {
    bounds::check(module)?;
    Module::validate(engine, module).map_err(|error| LoadError::Invalid(super::chain(&error)))?;
    let shape = shape(module).map_err(|error| LoadError::Invalid(detail(&error.to_string())))?;
    if !shape.typed {
        has_handler(&shape)?;
    }
    if !shape.foreign.is_empty() {
        return Err(LoadError::UnmetImports(text::names(shape.foreign.iter().map(String::as_str))));
    }
    if shape.typed {
        worlds::check(iter::once(module).chain(shape.preview1.then_some(ADAPTER)))?;
    }
    let embedded;
    let module = if shape.typed {
        module
    } else {
        embedded = with_our_world(module);
        &embedded
    };
    encode(module, shape.preview1).map_err(LoadError::Componentize)
}

fn encode(module: &[u8], preview1: bool) -> Result<Vec<u8>, String> {
    let encoder = || {
        let mut encoder = ComponentEncoder::default().validate(true).module(module)?;
        if preview1 {
            // The adapter gets its memory from `memory.grow`: asking the module's own allocator would call
            // into it before its runtime is up, which kills Go.
            encoder = encoder.adapter(ADAPTER_NAME, ADAPTER)?.realloc_via_memory_grow(true);
        }
        encoder.encode()
    };
    encoder().map_err(|error| detail(&format!("{error:#}")))
}

fn shape(module: &[u8]) -> Result<Shape, wasmparser::BinaryReaderError> {
    let mut shape = Shape::default();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import?;
                    shape.preview1 |= import.module == ADAPTER_NAME;
                    if is_foreign(import.module) {
                        shape.foreign.push(format!("{}.{}", import.module, import.name));
                    }
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    shape.exports.push(export?.name.to_owned());
                }
            }
            Payload::CustomSection(custom) => shape.typed |= is_world(custom.name()),
            _ => {}
        }
    }
    Ok(shape)
}

/// Whether a custom section of this name has a world in it, as the encoder sees it.
pub(super) fn is_world(section: &str) -> bool {
    section.starts_with("component-type")
}

/// Interfaces have a colon in their names; `$root`, `[export]…` and the like belong to the canonical ABI.
fn is_foreign(module: &str) -> bool {
    module != ADAPTER_NAME
        && !module.contains(':')
        && !module.starts_with(['$', '['])
        && !module.starts_with("cm32p2")
}

fn has_handler(shape: &Shape) -> Result<(), LoadError> {
    let wanted = FUNCTIONS.iter().map(|function| format!("{HANDLER}#{function}"));
    let missing: Vec<_> =
        wanted.filter(|name| !shape.exports.contains(name)).map(|name| format!("`{name}`")).collect();
    if missing.is_empty() { Ok(()) } else { Err(LoadError::NoCoreHandler { missing }) }
}

/// The module with our world in a custom section: id 0, then a length, a name and the world's encoding.
fn with_our_world(module: &[u8]) -> Vec<u8> {
    const NAME: &str = "component-type";
    let mut name = Vec::new();
    push_leb128(&mut name, NAME.len());
    name.extend_from_slice(NAME.as_bytes());
    let mut out = module.to_vec();
    out.push(0);
    push_leb128(&mut out, name.len() + COMPONENT_TYPE.len());
    out.extend_from_slice(&name);
    out.extend_from_slice(COMPONENT_TYPE);
    out
}

pub(super) fn push_leb128(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        // The low 7 bits, marked as not the last.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
