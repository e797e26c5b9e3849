//! A plugin that takes long to compile: a fixture with so many functions more that nobody calls.
//!
//! Used by the suites about compiling. Invariant: it does what the fixture does; the functions differ, so that no
//! compiler finds two that are the same.

use std::path::Path;

use anyhow::{Context, Result};

/// Section ids of the binary format.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const CODE: u8 = 10;

/// Arithmetic in one function: about 2 KiB of Wasm.
const STEPS: usize = 160;

/// A core module's bytes, made larger by at least `bytes` of code. `seed` makes the content another one.
///
/// # Errors
/// If the file is no core module with functions.
pub fn grown(file: &Path, bytes: usize, seed: u64) -> Result<Vec<u8>> {
    let module = std::fs::read(file)?;
    let mut rest = module.strip_prefix(b"\0asm\x01\0\0\0").context("no core module")?;
    let mut bodies = Vec::new();
    let mut code = 0;
    while code < bytes {
        let body = body(seed + bodies.len() as u64);
        code += body.len();
        bodies.push(body);
    }
    let mut ty = None;
    let mut out = b"\0asm\x01\0\0\0".to_vec();
    while let Some((&id, after)) = rest.split_first() {
        let (length, after) = number(after)?;
        let (content, after) = after.split_at_checked(length).context("cut short")?;
        rest = after;
        let content = match id {
            TYPES => {
                ty = Some(number(content)?.0);
                // One type more: a function without parameters or results.
                more(content, &[vec![0x60, 0, 0]])?
            }
            FUNCTIONS => {
                let ty = leb128(ty.context("functions before types")?);
                more(content, &vec![ty; bodies.len()])?
            }
            CODE => more(content, &bodies)?,
            _ => content.to_vec(),
        };
        out.push(id);
        out.extend(leb128(content.len()));
        out.extend(content);
    }
    Ok(out)
}

/// A vector of the binary format with items at its end.
fn more(vector: &[u8], items: &[Vec<u8>]) -> Result<Vec<u8>> {
    let (count, rest) = number(vector)?;
    let mut out = leb128(count + items.len());
    out.extend(rest);
    items.iter().for_each(|item| out.extend(item));
    Ok(out)
}

/// A function's body: one local, and arithmetic on it in a loop, with numbers that depend on the seed.
fn body(seed: u64) -> Vec<u8> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // One local of type i64; loop.
    let mut body = vec![1, 1, 0x7e, 0x03, 0x40];
    for _ in 0..STEPS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
        let operator = [0x7c, 0x7e, 0x85, 0x83][(random >> 60) as usize % 4];
        // local.get 0, i64.const N, operator (add, mul, xor, and), local.set 0.
        body.extend([0x20, 0, 0x42]);
        body.extend(signed_leb128((random >> 8) as i64 >> 16));
        body.extend([operator, 0x21, 0]);
    }
    // Again if the number is odd; end of the loop, end of the function.
    body.extend([0x20, 0, 0xa7, 0x41, 1, 0x71, 0x0d, 0, 0x0b, 0x0b]);
    let mut out = leb128(body.len());
    out.extend(body);
    out
}

fn number(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[index + 1..]));
        }
    }
    anyhow::bail!("no number")
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn signed_leb128(mut value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}
