//! `cargo xtask fixtures`: builds the guests that the tests use, from `tests/guests`. Invariant: each file
//! there is one fixture, except `counter.c`, which becomes one for each version that reload tests need.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::c_guest;
use crate::output;
use crate::rust_guest;
use crate::tools;

/// Versions of `counter`.
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
    let all = list(&output::root().join("tests/guests"))?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|fixture| fixture.name() != **name)) {
        let known: Vec<String> = all.iter().map(Fixture::name).collect();
        bail!("no fixture is named `{unknown}`; there are {}", known.join(", "));
    }
    let out = output::target().join("guests");
    let (mut c, mut rust) = (Vec::new(), Vec::new());
    for fixture in all.into_iter().filter(|fixture| names.is_empty() || names.contains(&fixture.name())) {
        match fixture {
            Fixture::C(guest) => c.push(guest),
            Fixture::Rust(name) => rust.push(name),
            Fixture::Binary(path) => copy(&path, &out)?,
        }
    }
    c_guest::build(&c, &out)?;
    for (name, content) in rust_guest::build(&rust)? {
        output::publish(&out.join(name).with_extension("wasm"), &content)?;
    }
    Ok(())
}

impl Fixture {
    fn name(&self) -> String {
        match self {
            Self::C(guest) => guest.name.clone(),
            Self::Rust(name) => name.clone(),
            Self::Binary(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

fn list(folder: &Path) -> Result<Vec<Fixture>> {
    let mut fixtures = Vec::new();
    for stem in tools::stems(folder, "c")? {
        let source = folder.join(&stem).with_extension("c");
        if stem == "counter" {
            fixtures.extend(VERSIONS.map(|version| counter(&source, version)));
        } else {
            fixtures.push(Fixture::C(c_guest::Guest {
                name: stem,
                sources: vec![source],
                defines: Vec::new(),
            }));
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

fn counter(source: &Path, version: u32) -> Fixture {
    Fixture::C(c_guest::Guest {
        name: format!("counter-v{version}"),
        sources: vec![source.to_owned()],
        defines: vec![format!("HARK_FIXTURE_VERSION={version}")],
    })
}

fn copy(file: &Path, out: &Path) -> Result<()> {
    let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    output::publish(&out.join(file.file_name().unwrap_or_default()), &content)
}
