//! Where the built plugins and fixtures are: `cargo xtask plugins` and `cargo xtask fixtures` make them, and
//! `cargo xtask test` does so before the tests.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// An example plugin's file.
///
/// # Panics
/// If it is not built.
pub fn plugin(name: &str) -> PathBuf {
    built("plugins", name, "cargo xtask plugins")
}

/// A fixture's file.
///
/// # Panics
/// If it is not built.
pub fn fixture(name: &str) -> PathBuf {
    built("guests", name, "cargo xtask fixtures")
}

fn built(folder: &str, name: &str, command: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let path = target.join(folder).join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is not there: run `{command}` first", path.display());
    path
}

/// A content as Hark names it: SHA-256, in hexadecimal digits.
pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
