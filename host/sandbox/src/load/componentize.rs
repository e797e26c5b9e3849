//! Makes a component of a core module, in milliseconds.
//!
//! Takes three kinds: with a `component-type` section (as wit-bindgen leaves it), without one (then our own
//! world is put in, the stateful one if it exports `lifecycle`, and the module's exports must be named by the canonical
//! ABI), and either of them for
//! wasip1 (then the preview1 adapter is linked in). Invariant: the module is validated, and its worlds are
//! known to be within bounds (see `worlds`), before the encoder sees it.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{Parser, Payload};
use wasmtime::{Engine, Module};
use wit_component::ComponentEncoder;

use super::LoadError;
use super::bounds;
use super::error::detail;
use super::exports::{FUNCTIONS, HANDLER, LIFECYCLE, LIFECYCLE_FUNCTIONS};
use super::features;
use super::worlds;
use crate::bindings::{COMPONENT_TYPE, stateful};
use crate::text;

/// Imports from wasip1, which has 46 functions. The encoder looks at each as often as there are others.
const MAX_PREVIEW1: usize = 1000;

/// What the encoder has to be told about a module.
#[derive(Debug, Default)]
struct Shape {
    exports: Vec<String>,
    /// `module.name` of what it imports from places that are no interface.
    foreign: Vec<String>,
    typed: bool,
    /// Number of imports from wasip1.
    preview1: usize,
}

/// The component made of a core module.
pub(super) fn componentize(engine: &Engine, module: &[u8]) -> Result<Vec<u8>, LoadError> {
    bounds::check(module)?;
    Module::validate(engine, module).map_err(|error| features::invalid(module, &error))?;
    let shape = shape(module).map_err(|error| LoadError::Invalid(detail(&error.to_string())))?;
    check(&shape)?;
    let preview1 = shape.preview1 > 0;
    if !shape.typed {
        let world = if shape.exports_of(LIFECYCLE) { stateful::COMPONENT_TYPE } else { COMPONENT_TYPE };
        return encode(&with_world(module, world), preview1).map_err(LoadError::Componentize);
    }
    unbroken(|| {
        worlds::check(iter::once(module).chain(preview1.then_some(ADAPTER)))?;
        encode(module, preview1).map_err(LoadError::Componentize)
    })
}

/// Refuses a module of which it can be told beforehand that it makes no plugin.
fn check(shape: &Shape) -> Result<(), LoadError> {
    if !shape.typed {
        has_handler(shape)?;
        has_all_of_lifecycle_or_none(shape)?;
    }
    if !shape.foreign.is_empty() {
        return Err(LoadError::UnmetImports(text::names(shape.foreign.iter().map(String::as_str))));
    }
    if shape.preview1 > MAX_PREVIEW1 {
        let why = format!("it imports {} functions of wasip1, more than {MAX_PREVIEW1}", shape.preview1);
        return Err(LoadError::Componentize(why));
    }
    Ok(())
}

/// A world that is broken in a way that wit-parser (0.254.2) does not expect makes it panic: that is no fault of the
/// host's, but of the file, and is said as such.
fn unbroken<T>(work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    // Nothing outlives the work that could be half-changed.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
        Err(LoadError::Componentize(detail(&format!("the world in it is broken: {said}"))))
    })
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
                    shape.preview1 += usize::from(import.module == ADAPTER_NAME);
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
    let missing = shape.missing(HANDLER, &FUNCTIONS);
    if missing.is_empty() { Ok(()) } else { Err(LoadError::NoCoreHandler { missing }) }
}

fn has_all_of_lifecycle_or_none(shape: &Shape) -> Result<(), LoadError> {
    let missing = shape.missing(LIFECYCLE, &LIFECYCLE_FUNCTIONS);
    if missing.is_empty() || !shape.exports_of(LIFECYCLE) {
        Ok(())
    } else {
        Err(LoadError::PartialLifecycle { missing })
    }
}

impl Shape {
    /// Whether it exports a function of an interface.
    fn exports_of(&self, interface: &str) -> bool {
        self.exports.iter().any(|name| name.strip_prefix(interface).is_some_and(|rest| rest.starts_with('#')))
    }

    /// The functions of an interface that it does not export.
    fn missing(&self, interface: &str, functions: &[&str]) -> Vec<String> {
        let wanted = functions.iter().map(|function| format!("{interface}#{function}"));
        wanted.filter(|name| !self.exports.contains(name)).map(|name| format!("`{name}`")).collect()
    }
}

/// The module with a world of ours in a custom section: id 0, then a length, a name and the world's encoding.
fn with_world(module: &[u8], world: &[u8]) -> Vec<u8> {
    const NAME: &str = "component-type";
    let mut name = Vec::new();
    push_leb128(&mut name, NAME.len());
    name.extend_from_slice(NAME.as_bytes());
    let mut out = module.to_vec();
    out.push(0);
    push_leb128(&mut out, name.len() + world.len());
    out.extend_from_slice(&name);
    out.extend_from_slice(world);
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
