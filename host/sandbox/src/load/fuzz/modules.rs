//! Targets `worlds`, `componentize` and `sections`: core modules on their way to a component.
//!
//! A module of a right world becomes a component that validates. One that was changed does, or is refused; it never
//! panics, and nothing grows beyond what its size allows.

use std::time::Duration;

use hark_fuzz::{Mutated, Target};
use proptest::prelude::*;
use wasmparser::{Validator, WasmFeatures};
use wasmtime::Engine;

use super::super::{LoadError, component_bytes};
use super::{files, is_said_well, worlds};

/// Bytes that a component may have beyond a multiple of its module: the adapter, and our world twice.
const MORE: usize = 256 << 10;

fn componentized(engine: &Engine, module: &[u8]) -> Result<Vec<u8>, LoadError> {
    component_bytes(engine, module).map(std::borrow::Cow::into_owned)
}

fn is_right(module: &[u8], component: &[u8]) -> Result<(), TestCaseError> {
    let most = 8 * module.len() + MORE;
    prop_assert!(component.len() <= most, "{} bytes became {}", module.len(), component.len());
    let validated = Validator::new_with_features(WasmFeatures::all()).validate_all(component);
    prop_assert!(validated.is_ok(), "{:?}", validated.err());
    Ok(())
}

#[test]
fn fuzz_worlds() {
    let engine = Engine::default();
    let target = Target { name: "worlds", cases: 60, within: Duration::from_secs(5) };
    hark_fuzz::values(target, worlds::world, |world| {
        let module = world.module();
        let component = componentized(&engine, &module);
        prop_assert!(component.is_ok(), "{:?}", component.err());
        is_right(&module, &component.unwrap_or_default())
    });
}

/// Only the worlds in a module are changed, so that more of them are looked at; and there may be several.
#[test]
fn fuzz_sections() {
    let engine = Engine::default();
    let target = Target { name: "sections", cases: 400, within: Duration::from_secs(5) };
    let input = || {
        let worlds = prop::collection::vec(hark_fuzz::mutated(files::encodings(), 3), 1..4);
        worlds.prop_map(|worlds| {
            let encodings: Vec<&[u8]> = worlds.iter().map(AsRef::as_ref).collect();
            Mutated { bytes: files::with_worlds(&encodings), from: format!("{worlds:?}"), cuts: vec![] }
        })
    };
    hark_fuzz::files(target, input, |module| match componentized(&engine, module) {
        Ok(component) => is_right(module, &component),
        Err(error) => is_said_well(&error),
    });
}

#[test]
fn fuzz_componentize() {
    let engine = Engine::default();
    let target = Target { name: "componentize", cases: 400, within: Duration::from_secs(5) };
    let input = || hark_fuzz::mutated(files::modules(), 4);
    hark_fuzz::files(target, input, |module| match componentized(&engine, module) {
        Ok(component) => is_right(module, &component),
        Err(error) => is_said_well(&error),
    });
}
