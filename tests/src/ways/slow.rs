//! Writers that take their time.
//!
//! Used by the ways that are about files which are being written. Invariant: each part is in the file, for everybody to
//! see, before the pause after it begins.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::pause;

/// A content in a number of parts of much the same size.
pub fn parts(content: &[u8], count: usize) -> Vec<Vec<u8>> {
    content.chunks(content.len().div_ceil(count).max(1)).map(<[u8]>::to_vec).collect()
}

/// Empties a file and writes it part by part, with a pause after each but the last. It stays open all the while.
///
/// # Errors
/// If it cannot be written.
pub async fn write(path: &Path, parts: &[Vec<u8>], between: Duration) -> Result<()> {
    write_on(File::create(path)?, parts, between).await
}

/// Writes part by part where a file that is open stands.
///
/// # Errors
/// If it cannot be written.
pub async fn write_on(mut file: File, parts: &[Vec<u8>], between: Duration) -> Result<()> {
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            pause(between).await;
        }
        file.write_all(part)?;
    }
    Ok(())
}

/// Empties a file and appends part by part, and closes the file after each.
///
/// # Errors
/// If it cannot be written.
pub async fn write_and_close_each(path: &Path, parts: &[Vec<u8>], between: Duration) -> Result<()> {
    File::create(path)?;
    for part in parts {
        pause(between).await;
        OpenOptions::new().append(true).open(path)?.write_all(part)?;
    }
    Ok(())
}
