//! client-go's informer pipeline in Rust: reflector, DeltaFIFO, indexer, shared informer, listeners.

pub mod backoff;
pub mod cache;
pub mod client;
pub mod delta_fifo;
pub mod factory;
pub mod frame;
pub mod handler;
pub mod indexer;
pub mod list_watch;
pub mod listener;
pub mod object;
mod processor;
pub mod queue;
pub mod reflector;
mod replay;
pub mod resource;
pub mod shared_informer;
pub mod status;

#[cfg(test)]
mod testing;
