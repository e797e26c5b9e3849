//! Limits of wasmtime's whose errors have no public type: told by their words.
//!
//! Used by `outcome` for what is of no other type. wasmtime is pinned to one version, and tests from outside
//! (`tests/sandbox/caps.rs`) hit each of these limits, so that another version with other words fails them. Invariant:
//! a text that no longer matches is still shown, as it is.

/// A limit of wasmtime's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untyped {
    /// `Store::set_hostcall_fuel`: bytes handed over in a call.
    Fuel,
    /// `Store::set_max_component_handles`.
    Handles,
    /// `ResourceLimiter`'s numbers of instances, tables and memories.
    Instances,
}

impl Untyped {
    /// The limit that an error's root cause is about.
    pub(super) fn of(words: &str) -> Option<Self> {
        if words.contains("fuel allocated for hostcalls has been exhausted") {
            Some(Self::Fuel)
        } else if words.contains("store handle limit exceeded") {
            Some(Self::Handles)
        } else if words.starts_with("resource limit exceeded: ") {
            Some(Self::Instances)
        } else {
            None
        }
    }
}
