//! `cargo xtask plugins`: builds the example plugins of `plugins/`. Invariant: a plugin is a folder, named as
//! its `.wasm` file will be, with a `Cargo.toml` (Rust) or with C files; nothing else has to be registered
//! here.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::c_guest;
use crate::output;
use crate::rust_guest;
use crate::tools;

/// A folder of `plugins/`.
struct Plugin {
    name: String,
    folder: PathBuf,
    is_rust: bool,
}

/// Builds the plugins named, or all, into `target/plugins`.
pub(crate) fn run(names: &[String]) -> Result<()> {
    let chosen = choose(names)?;
    let out = output::target().join("plugins");
    let rust: Vec<String> =
        chosen.iter().filter(|plugin| plugin.is_rust).map(|plugin| plugin.name.clone()).collect();
    for (name, content) in rust_guest::build(&rust)? {
        output::publish(&out.join(name).with_extension("wasm"), &content)?;
    }
    let c: Vec<c_guest::Guest> =
        chosen.iter().filter(|plugin| !plugin.is_rust).map(Plugin::c).collect::<Result<_>>()?;
    c_guest::build(&c, &out)
}

impl Plugin {
    fn c(&self) -> Result<c_guest::Guest> {
        let stems = tools::stems(&self.folder, "c")?;
        let sources = stems.iter().map(|stem| self.folder.join(stem).with_extension("c")).collect();
        Ok(c_guest::Guest { name: self.name.clone(), sources, defines: Vec::new() })
    }
}

fn choose(names: &[String]) -> Result<Vec<Plugin>> {
    let all = list()?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|plugin| plugin.name != **name)) {
        let known: Vec<&str> = all.iter().map(|plugin| plugin.name.as_str()).collect();
        bail!("no plugin is named `{unknown}`; there are {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|plugin| names.is_empty() || names.contains(&plugin.name)).collect())
}

fn list() -> Result<Vec<Plugin>> {
    let folder = output::root().join("plugins");
    let mut plugins = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let folder = entry?.path();
        let is_rust = folder.join("Cargo.toml").is_file();
        if folder.is_dir() && (is_rust || !tools::stems(&folder, "c")?.is_empty()) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            plugins.push(Plugin { name, folder, is_rust });
        }
    }
    plugins.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(plugins)
}
