//! Real plugins that were built on this machine, for long runs.
//!
//! Invariant: with the tests there are none, since what they try must not depend on what was built before.

use std::path::Path;

/// `NAME.wasm` files of the folders in `HARK_FUZZ_CORPUS` (separated as in `PATH`), with their names.
pub fn corpus() -> Vec<(String, Vec<u8>)> {
    let folders = std::env::var_os("HARK_FUZZ_CORPUS").unwrap_or_default();
    let mut files: Vec<_> = std::env::split_paths(&folders).flat_map(|folder| wasm_files(&folder)).collect();
    files.sort();
    files
}

fn wasm_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|one| one == "wasm"));
    paths
        .filter_map(|path| {
            Some((path.file_stem()?.to_string_lossy().into_owned(), std::fs::read(&path).ok()?))
        })
        .collect()
}
