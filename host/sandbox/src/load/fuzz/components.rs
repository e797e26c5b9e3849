//! Target `load`: whole and changed files, all the way to a plugin.

use std::time::Duration;

use hark_fuzz::Target;
use proptest::prelude::*;

use super::super::{LoadError, LoadOptions};
use super::{files, is_said_well, worlds};
use crate::compiler::Compile;
use crate::engine::Engine;

fn both() -> Vec<(String, Vec<u8>)> {
    let mut all = files::components();
    all.extend(files::modules());
    all
}

#[test]
fn fuzz_load() {
    let engine = Engine::new().expect("an engine");
    let target = Target { name: "load", cases: 60, within: Duration::from_secs(20) };
    hark_fuzz::files(
        target,
        || hark_fuzz::mutated(both(), 3),
        |bytes| {
            // Whichever compiler is asked, the same files are plugins.
            let load = |compile| engine.load(bytes, LoadOptions { compile, ..LoadOptions::default() });
            match Compile::ALL.map(load) {
                [Ok(plugin), Ok(_)] => {
                    prop_assert_eq!(plugin.size(), bytes.len());
                    Ok(())
                }
                [Err(error), Err(other)] => {
                    prop_assert_eq!(&error, &other);
                    is_said_well(&error)
                }
                [one, other] => Err(TestCaseError::fail(format!("{one:?}, {other:?}"))),
            }
        },
    );
}

/// A plugin of any world loads, unless it imports more than ours has.
#[test]
fn fuzz_plugins() {
    let engine = Engine::new().expect("an engine");
    let target = Target { name: "plugins", cases: 20, within: Duration::from_secs(20) };
    hark_fuzz::values(target, worlds::world, |world| {
        match engine.load(&world.module(), LoadOptions::default()) {
            Ok(_) => {
                prop_assert!(!world.imports);
                Ok(())
            }
            Err(LoadError::UnmetImports(names)) => {
                prop_assert!(
                    world.imports && names.iter().all(|name| name.starts_with("test:guest/i")),
                    "{names:?}"
                );
                Ok(())
            }
            Err(error) => Err(TestCaseError::fail(error.to_string())),
        }
    });
}
