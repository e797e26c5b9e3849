//! Generates the committed bindings of the plugin contract; started by `cargo xtask bindings`.
//!
//! Usage: `hark-bindings WIT-FOLDER OUT-FOLDER`; writes `c/plugin.{h,c}`, `c/plugin_component_type.o` and
//! `rust/src/bindings.rs` there, and the same of `lifecycle` for the export that a plugin may have beside. Invariant: the
//! output is a function of the WIT text and of the generators'
//! pinned version alone, so comparing it with the committed files tells whether these are up to date.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wit_bindgen_core::wit_parser::{PackageId, Resolve};
use wit_bindgen_core::{Files, WorldGenerator};

/// A world that bindings are generated for. The names generated for C (`plugin_string_t`), and of its files, start with
/// the world's.
struct Part {
    world: &'static str,
    /// Where its Rust bindings are: the file, and the path that authors' crates know it by.
    rust: (&'static str, &'static str),
}

/// The world of the export that a plugin may have beside the handler.
const LIFECYCLE: &str = "hark:sdk/lifecycle";

const PARTS: [Part; 2] = [
    Part { world: "plugin", rust: ("rust/src/bindings.rs", "hark_guest::bindings") },
    Part {
        world: LIFECYCLE,
        rust: ("rust/src/lifecycle_bindings.rs", "hark_guest::lifecycle_bindings"),
    },
];

/// A module has a world for each part that is linked into it: one that has only this export, and shares no type with the
/// rest, is what a plugin adds that wants it.
const SDK: &str = "package hark:sdk; world lifecycle { export hark:plugin/lifecycle@0.1.0; }";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wit, out] = arguments.as_slice() else { bail!("usage: hark-bindings WIT-FOLDER OUT-FOLDER") };
    let (wit, out) = (Path::new(wit), Path::new(out));
    for Part { world, rust: (file, module) } in PARTS {
        for (name, content) in generate(&mut *wit_bindgen_c::Opts::default().build(), wit, world)?.iter() {
            write(&out.join("c").join(name), content)?;
        }
        for (_, content) in generate(&mut rust(module, world == LIFECYCLE), wit, world)?.iter() {
            let text = String::from_utf8(content.to_vec())?;
            let text = if world == LIFECYCLE { without_imports_described(&text)? } else { text };
            write(&out.join(file), text.as_bytes())?;
        }
    }
    Ok(())
}

/// As the macro `wit_bindgen::generate!` would do it, in a crate that other crates export their plugin from. `addition`: to
/// another one's bindings, which do what has to be done once.
fn rust(module: &str, addition: bool) -> impl WorldGenerator {
    wit_bindgen_rust::Opts {
        format: true,
        pub_export_macro: true,
        default_bindings_module: Some(module.to_owned()),
        runtime_path: Some("::wit_bindgen::rt".to_owned()),
        disable_custom_section_link_helpers: addition,
        ..Default::default()
    }
    .build()
}

/// Leaves out the custom section that describes what a world imports: this one imports nothing, and the section would be
/// linked into every plugin of the SDK, whether it has the export or not. The section of the export itself is in the macro
/// that makes it.
fn without_imports_described(text: &str) -> Result<String> {
    let name = text.find("-with-all-of-its-exports-removed:").context("no section describes its imports")?;
    let start = text[..name].rfind("#[rustfmt::skip]\n").context("the section has no attributes")?;
    let length = text[start..].find("\";\n").context("the section has no end")? + "\";\n".len();
    Ok(format!("{}{}", &text[..start], &text[start + length..]))
}

fn generate(generator: &mut dyn WorldGenerator, wit: &Path, world: &str) -> Result<Files> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).with_context(|| format!("cannot read {}", wit.display()))?;
    let sdk: PackageId = resolve.push_str("sdk.wit", SDK)?;
    let package = if world.starts_with("hark:sdk") { sdk } else { package };
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    Ok(files)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("every output has a folder")?)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
