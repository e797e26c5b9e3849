//! `cargo xtask fixtures`: builds the guests that the tests use, from `tests/guests`. Invariant: each file
//! there is one fixture, except `counter.c` and `stateful.c`, which become one for each version that reload tests need.
//! Those of
//! `tests/guests/hostile` that are not written in C are assembled by their suite.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::c_guest;
use crate::output;
use crate::rust_guest;
use crate::tools;

/// Guests that are built in several versions.
const VERSIONED: [&str; 2] = ["counter", "stateful"];

/// Their versions.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=5;

/// How a fixture is made.
enum Fixture {
    C(c_guest::Guest),
    /// A crate of the guests' workspace.
    Rust(String),
    /// A committed binary.
    Binary(PathBuf),
}

/// Builds the fixtures named, or all, into `target/guests`.
pub(crate) fn run(names: &[String]) -> Result<()> {
    let folder = output::root().join("tests/guests");
    let (all, hostile) = (list(&folder)?, hostile(&folder.join("hostile"))?);
    let known: Vec<&str> =
        all.iter().map(Fixture::name).chain(hostile.iter().map(|guest| guest.name.as_str())).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no fixture is named `{unknown}`; there are {}", known.join(", "));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let hostile: Vec<_> = hostile.into_iter().filter(|guest| wanted(&guest.name)).collect();
    let out = output::target().join("guests");
    let (mut c, mut rust) = (Vec::new(), Vec::new());
    for fixture in all.into_iter().filter(|fixture| wanted(fixture.name())) {
        match fixture {
            Fixture::C(guest) => c.push(guest),
            Fixture::Rust(name) => rust.push(name),
            Fixture::Binary(path) => copy(&path, &out)?,
        }
    }
    c_guest::build(&c, &out)?;
    c_guest::build(&hostile, &out.join("hostile"))?;
    for (name, content) in rust_guest::build(&rust)? {
        output::publish(&out.join(name).with_extension("wasm"), &content)?;
    }
    Ok(())
}

impl Fixture {
    fn name(&self) -> &str {
        match self {
            Self::C(guest) => &guest.name,
            Self::Rust(name) => name,
            Self::Binary(path) => path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default(),
        }
    }
}

fn list(folder: &Path) -> Result<Vec<Fixture>> {
    let mut fixtures = Vec::new();
    for stem in tools::stems(folder, "c")? {
        let source = folder.join(&stem).with_extension("c");
        if VERSIONED.contains(&stem.as_str()) {
            fixtures.extend(VERSIONS.map(|number| version(&stem, &source, number)));
        } else {
            fixtures.push(Fixture::C(plain(stem, source)));
        }
    }
    for stem in tools::stems(folder, "wasm")? {
        fixtures.push(Fixture::Binary(folder.join(stem).with_extension("wasm")));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            fixtures.push(Fixture::Rust(entry.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(fixtures)
}

/// The hostile guests in C, which have a folder of their own.
fn hostile(folder: &Path) -> Result<Vec<c_guest::Guest>> {
    let stems = tools::stems(folder, "c")?.into_iter();
    Ok(stems
        .map(|stem| (folder.join(&stem).with_extension("c"), stem))
        .map(|(source, stem)| plain(stem, source))
        .collect())
}

fn plain(name: String, source: PathBuf) -> c_guest::Guest {
    c_guest::Guest { name, sources: vec![source], defines: Vec::new() }
}

fn version(stem: &str, source: &Path, number: u32) -> Fixture {
    Fixture::C(c_guest::Guest {
        name: format!("{stem}-v{number}"),
        sources: vec![source.to_owned()],
        defines: vec![format!("HARK_FIXTURE_VERSION={number}")],
    })
}

fn copy(file: &Path, out: &Path) -> Result<()> {
    let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    output::publish(&out.join(file.file_name().unwrap_or_default()), &content)
}
