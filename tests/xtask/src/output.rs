//! Where built files go, and how they get there. Used by every subcommand. Invariant: a reader (a running
//! host watches these folders) never sees half a file, and never sees a change where there was none.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/xtask is two levels below the root").to_owned()
}

/// `target/` of the repository, wherever `CARGO_TARGET_DIR` points: the paths below it are documented.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// Writes a file at once (beside it, then renamed over it), and only if its content changed.
pub(crate) fn publish(path: &Path, content: &[u8]) -> Result<()> {
    let size = content.len().div_ceil(1024);
    let shown = path.strip_prefix(root()).unwrap_or(path).display();
    if fs::read(path).is_ok_and(|old| old == content) {
        eprintln!("  {shown}  {size} KiB, unchanged");
        return Ok(());
    }
    let folder = path.parent().context("an output path has a folder")?;
    fs::create_dir_all(folder)?;
    let half = folder.join(format!(".{}.{}.tmp", file_name(path), std::process::id()));
    fs::write(&half, content).with_context(|| format!("cannot write {}", half.display()))?;
    fs::rename(&half, path).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("  {shown}  {size} KiB");
    Ok(())
}

/// Runs one step, saying on stderr what it is and how long it took.
pub(crate) fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("{what} …");
    let start = Instant::now();
    let result = work()?;
    eprintln!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(result)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_only_with_its_content_and_leaves_nothing_beside_it() {
        let folder = target().join("guests-build/output-test");
        let file = folder.join("a.wasm");
        publish(&file, b"one").unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        publish(&file, b"one").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written);
        publish(&file, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
