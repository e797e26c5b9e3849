//! The part of `/api/plugins` that says what became of a plugin's memory at its last reload.
//!
//! Used by `api` alone. Invariant: none of the memory itself is shown.

use std::time::SystemTime;

use serde::Serialize;

use crate::plugins::carried::Carried;
use crate::timestamp::timestamp;

#[derive(Serialize)]
pub(super) struct HandOverDocument<'a> {
    /// `kept`, `none` or `failed`.
    result: &'static str,
    /// What all instances of the version before saved.
    bytes: usize,
    /// Why it failed.
    message: Option<&'a str>,
    at: String,
}

impl<'a> HandOverDocument<'a> {
    pub(super) fn of((carried, at): &'a (Carried, SystemTime)) -> Self {
        let Carried { result, bytes, why } = carried;
        let message = Some(why.as_str()).filter(|why| !why.is_empty());
        Self { result: result.as_str(), bytes: *bytes, message, at: timestamp(*at) }
    }
}
