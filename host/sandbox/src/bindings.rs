//! The Rust face of `wit/`: the one place where bindings are generated.
//!
//! Used by `host` (imports), `guest` and `instance` (exports) and `load` (types, and the worlds' own encodings).
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

/// The world with the export `lifecycle`. Of what is generated for it, only that export is used, and the encoding: the
/// rest is the world's above.
#[allow(dead_code, reason = "the other half of the world has its bindings above")]
pub mod stateful {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "hark:plugin/stateful-plugin",
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: false },
        include_component_type: true,
        with: {
            "hark:plugin/plugin-types": crate::bindings::hark::plugin::plugin_types,
            "hark:plugin/log": crate::bindings::hark::plugin::log,
            "hark:plugin/settings": crate::bindings::hark::plugin::settings,
            "hark:plugin/delivery": crate::bindings::hark::plugin::delivery,
            "hark:plugin/cache": crate::bindings::hark::plugin::cache,
        },
    });
}
