//! Generates the committed bindings of the plugin contract; started by `cargo xtask bindings`.
//!
//! Usage: `hark-bindings WIT-FOLDER OUT-FOLDER`; writes `c/plugin.{h,c}`, `c/plugin_component_type.o` and
//! `rust/src/bindings.rs` there. Invariant: the output is a function of the WIT text and of the generators'
//! pinned version alone, so comparing it with the committed files tells whether these are up to date.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

/// The world that plugins are built for; the names generated for C (`plugin_string_t`) start with it.
const WORLD: &str = "plugin";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wit, out] = arguments.as_slice() else { bail!("usage: hark-bindings WIT-FOLDER OUT-FOLDER") };
    let (wit, out) = (Path::new(wit), Path::new(out));
    for (name, content) in generate(&mut *wit_bindgen_c::Opts::default().build(), wit)?.iter() {
        write(&out.join("c").join(name), content)?;
    }
    for (_, content) in generate(&mut rust(), wit)?.iter() {
        write(&out.join("rust/src/bindings.rs"), content)?;
    }
    Ok(())
}

/// As the macro `wit_bindgen::generate!` would do it, in a crate that other crates export their plugin from.
fn rust() -> impl WorldGenerator {
    wit_bindgen_rust::Opts {
        format: true,
        pub_export_macro: true,
        default_bindings_module: Some("hark_guest::bindings".to_owned()),
        runtime_path: Some("::wit_bindgen::rt".to_owned()),
        ..Default::default()
    }
    .build()
}

fn generate(generator: &mut dyn WorldGenerator, wit: &Path) -> Result<Files> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).with_context(|| format!("cannot read {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    Ok(files)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("every output has a folder")?)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
