//! client-go's informer pipeline in Rust.

pub mod cache;
pub mod handler;
pub mod object;
