//! client-go's informer pipeline in Rust: reflector, DeltaFIFO, indexer, shared informer, listeners.

pub mod cache;
pub mod delta_fifo;
pub mod handler;
pub mod indexer;
pub mod object;

#[cfg(test)]
mod testing;
