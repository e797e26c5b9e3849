//! Lists the hostile guests, so that one without a case in their suite fails the build of the tests.
//!
//! Invariant: one assertion for each file of `guests/hostile` that is a guest (`.c`, `.wat`, `.hex`), evaluated when
//! `tests/hostile` is compiled; its message names the file.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

const FOLDER: &str = "guests/hostile";

fn main() -> io::Result<()> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut assertions = String::new();
    for (name, stem) in names.iter().filter_map(|name| Some((name, guest(name)?))) {
        let message = format!("tests/{FOLDER}/{name} has no case in tests/tests/hostile/cases.rs");
        // Writing to a string cannot fail.
        let _ = writeln!(assertions, "const _: () = assert!(has_case({stem:?}), {message:?});");
    }
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("hostile_guests.rs"), assertions)?;
    instruct(&format!("rerun-if-changed={FOLDER}"))
}

/// The name of the guest that a file is, if it is one.
fn guest(file: &str) -> Option<&str> {
    let (stem, extension) = file.rsplit_once('.')?;
    (["c", "wat", "hex"].contains(&extension) && !stem.ends_with(".inc")).then_some(stem)
}

/// Tells cargo something, the way a build script does.
fn instruct(what: &str) -> io::Result<()> {
    io::Write::write_all(&mut io::stdout(), format!("cargo::{what}\n").as_bytes())
}
