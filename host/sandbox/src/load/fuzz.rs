//! Fuzz targets of loading: files that are nearly plugins.
//!
//! Run with the tests, and by `cargo xtask fuzz`. What each target holds a file against is in its file.

mod components;
mod files;
mod modules;
mod sniffing;
mod texts;
mod worlds;

use proptest::prelude::*;

use super::LoadError;
use crate::text;

/// Bytes of the longest message about a file: a list of 21 names, or what a library says twice.
const MESSAGE: usize = 8 << 10;

/// What is said about a file is short, and safe to show.
fn is_said_well(error: &LoadError) -> Result<(), TestCaseError> {
    let message = error.to_string();
    prop_assert_ne!(error, &LoadError::Panicked);
    prop_assert!(message.len() <= MESSAGE, "{} bytes: {message}", message.len());
    for line in message.split('\n') {
        prop_assert_eq!(text::clean(line, usize::MAX), line);
    }
    Ok(())
}
