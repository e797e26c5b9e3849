//! The guests of `tests/guests/hostile`, as bytes: those in C are built by `cargo xtask fixtures`, the others are
//! assembled here.
//!
//! A guest in WebAssembly text may have lines that tell the assembler something (`;;@ word …`):
//!
//! | line | means |
//! | --- | --- |
//! | `include FILE` | the lines of a file beside it |
//! | `repeat N` … `end` | the lines between, N times; in them `{n}`, `{n+1}`, `{n*1000+70}` stand for numbers from 0 on |
//! | `bytes N` | a text of N letters |
//! | `wit …` | a line of WIT: the world `guest` of the package `test:guest`, which goes into the module as its type |
//! | `instances N` | the module, which must have a type and no imports, is made a component with N instances of another one |
//! | `cut N` | the last N bytes of the file are missing |
//!
//! A guest in hexadecimal (`.hex`) is its bytes; `#` begins a comment, and a line `1000 * 41 01` stands for a thousand
//! times these bytes. Invariant: assembling the same guest twice
//! gives the same bytes.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wit_component::StringEncoding;
use wit_parser::Resolve;

use crate::guests::fixture;

/// A guest's bytes.
///
/// # Errors
/// If there is no such guest, or it cannot be assembled.
pub fn guest(name: &str) -> Result<Vec<u8>> {
    let source = |extension: &str| folder().join(format!("{name}.{extension}"));
    if source("c").is_file() {
        return Ok(fs::read(fixture(&format!("hostile/{name}")))?);
    }
    if source("hex").is_file() {
        return hex(&fs::read_to_string(source("hex"))?);
    }
    let text =
        fs::read_to_string(source("wat")).with_context(|| format!("no hostile guest is named {name}"))?;
    assemble(&text).with_context(|| format!("assembling {name}"))
}

/// `tests/guests/hostile`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/hostile")
}

/// The bytes of a text of hexadecimal pairs.
fn hex(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (times, pairs) = line.split_once('*').unwrap_or(("1", line));
        let pair = |word| u8::from_str_radix(word, 16).with_context(|| line.to_owned());
        let pairs = pairs.split_whitespace().map(pair).collect::<Result<Vec<u8>>>()?;
        bytes.extend(pairs.repeat(times.trim().parse().with_context(|| line.to_owned())?));
    }
    Ok(bytes)
}

/// What the lines of a guest come to.
#[derive(Default)]
struct Expanded {
    text: String,
    wit: String,
    instances: u32,
    cut: usize,
}

fn assemble(source: &str) -> Result<Vec<u8>> {
    let mut expanded = Expanded::default();
    let lines: Vec<&str> = source.lines().collect();
    expanded.lines(&lines, 0)?;
    let mut bytes = wat::parse_str(&expanded.text)?;
    if !expanded.wit.is_empty() {
        embed(&mut bytes, &expanded.wit)?;
    }
    if expanded.instances > 0 {
        bytes = with_instances(&bytes, expanded.instances)?;
    }
    bytes.truncate(bytes.len().saturating_sub(expanded.cut));
    Ok(bytes)
}

/// Puts a world into a module: the one named `guest`.
fn embed(module: &mut Vec<u8>, wit: &str) -> Result<()> {
    let mut resolve = Resolve::default();
    resolve.push_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit"))?;
    let package = resolve.push_str("guest.wit", wit)?;
    let world = resolve.select_world(&[package], Some("test:guest/guest"))?;
    wit_component::embed_component_metadata(module, &resolve, world, StringEncoding::UTF8)
}

/// A component made of a module, and instances of an empty second module behind it.
fn with_instances(module: &[u8], count: u32) -> Result<Vec<u8>> {
    let mut component = wit_component::ComponentEncoder::default().module(module)?.validate(true).encode()?;
    let empty = wat::parse_str("(module)")?;
    section(&mut component, 1, &empty)?;
    let mut instances = leb128(count);
    for _ in 0..count {
        // Instantiate module 1 with nothing.
        instances.extend([0, 1, 0]);
    }
    section(&mut component, 2, &instances)?;
    Ok(component)
}

fn section(out: &mut Vec<u8>, id: u8, content: &[u8]) -> Result<()> {
    out.push(id);
    out.extend(leb128(content.len().try_into()?));
    out.extend_from_slice(content);
    Ok(())
}

fn leb128(mut value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

impl Expanded {
    /// Takes lines, of which this is the repetition with this number.
    fn lines(&mut self, lines: &[&str], number: u64) -> Result<()> {
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            at += 1;
            let Some(told) = line.trim_start().strip_prefix(";;@ ") else {
                self.text.push_str(&numbered(line, number)?);
                self.text.push('\n');
                continue;
            };
            match told.split_once(' ').unwrap_or((told, "")) {
                ("repeat", count) => {
                    let length = block(&lines[at..]).with_context(|| format!("{line}: no end"))?;
                    for number in 0..count.parse().with_context(|| (*line).to_owned())? {
                        self.lines(&lines[at..at + length], number)?;
                    }
                    at += length + 1;
                }
                ("include", file) => {
                    let text = fs::read_to_string(folder().join(file)).with_context(|| file.to_owned())?;
                    self.lines(&text.lines().collect::<Vec<_>>(), number)?;
                }
                ("bytes", count) => self.text.push_str(&format!("\"{}\"\n", "x".repeat(count.parse()?))),
                ("wit", wit) => self.wit.push_str(&format!("{wit}\n")),
                ("instances", count) => self.instances = count.parse()?,
                ("cut", count) => self.cut = count.parse()?,
                (word, _) => bail!("{line}: what is `{word}`?"),
            }
        }
        Ok(())
    }
}

/// How many lines there are before the `end` that belongs to the `repeat` before them.
fn block(lines: &[&str]) -> Option<usize> {
    let mut open = 1;
    lines.iter().position(|line| {
        match line.trim_start().strip_prefix(";;@ ") {
            Some("end") => open -= 1,
            Some(told) if told.starts_with("repeat ") => open += 1,
            _ => {}
        }
        open == 0
    })
}

/// A line with its numbers in their places.
fn numbered(line: &str, number: u64) -> Result<Cow<'_, str>> {
    if !line.contains("{n") {
        return Ok(Cow::Borrowed(line));
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{n") {
        let (formula, after) = after.split_once('}').with_context(|| format!("{line}: no `}}`"))?;
        let (times, plus) = formula.split_once('+').unwrap_or((formula, "0"));
        let times = times.strip_prefix('*').unwrap_or("1");
        out.push_str(before);
        out.push_str(&(number * times.parse::<u64>()? + plus.parse::<u64>()?).to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(source: &str) -> String {
        let mut expanded = Expanded::default();
        expanded.lines(&source.lines().collect::<Vec<_>>(), 0).expect("sound lines");
        expanded.text
    }

    #[test]
    fn lines_are_repeated_with_their_numbers() {
        let source = "a\n;;@ repeat 2\nb{n} {n+1}\n  ;;@ repeat 2\nc{n*10+5}\n;;@ end\n;;@ end\nd";
        assert_eq!(expand(source), "a\nb0 1\nc5\nc15\nb1 2\nc5\nc15\nd\n");
        assert_eq!(expand(";;@ bytes 3"), "\"xxx\"\n");
    }

    #[test]
    fn what_is_no_instruction_is_an_error() {
        for wrong in [";;@ repeat 2\na", ";;@ repeat x\n;;@ end", ";;@ fly", ";;@ include none.wat"] {
            let mut expanded = Expanded::default();
            assert!(expanded.lines(&wrong.lines().collect::<Vec<_>>(), 0).is_err(), "{wrong}");
        }
        assert!(hex("00 xx").is_err());
    }

    #[test]
    fn a_type_goes_into_the_module_and_the_end_is_cut() {
        let module = ";;@ wit package test:guest;\n;;@ wit world guest { export run: func(); }\n(module)";
        let typed = assemble(module).expect("a module");
        assert!(typed.windows(14).any(|bytes| bytes == b"component-type"));
        let cut = assemble(&format!(";;@ cut 5\n{module}")).expect("a module");
        assert_eq!(cut, typed[..typed.len() - 5]);
        assert_eq!(hex("# some\n00 fF\n2 * 01 02").expect("bytes"), [0, 255, 1, 2, 1, 2]);
    }
}
