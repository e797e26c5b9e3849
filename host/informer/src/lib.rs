//! client-go's informer pipeline in Rust: reflector, DeltaFIFO, indexer, shared informer, listeners.

pub mod backoff;
pub mod cache;
pub mod client;
pub mod delta_fifo;
pub mod frame;
pub mod handler;
pub mod indexer;
pub mod list_watch;
pub mod object;
pub mod reflector;
pub mod resource;
pub mod status;

#[cfg(test)]
mod testing;
