//! What the host does with an object before a handler is woken: data, no code, bounded work on its JSON text.

mod index;
mod pointer;
mod scan;
mod trie;

pub use self::index::{IndexPointer, MAX_INDEX_VALUE};
pub use self::pointer::{
    MAX_POINTER, MAX_SEGMENTS, MAX_WILDCARDS, Pointer, PointerError, PointerReason, Segment,
};
