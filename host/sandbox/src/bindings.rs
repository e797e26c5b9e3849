//! The Rust face of `wit/`: the one place where bindings are generated.
//!
//! Used by `host` (imports), `instance` (exports) and `load` (types, and the world's own encoding).
//! Invariant: calls into the guest are async, so that they can be given up; imports never wait, so they are
//! plain functions. Strings go in as `&str`: the object's text is copied once, into the guest's memory.

#![allow(missing_docs, unreachable_pub, reason = "generated code; wit/ is its documentation")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "hark:plugin/plugin",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: false },
    include_component_type: true,
});
