//! The sandbox from outside: plugins written as WebAssembly text, run as the host runs them.
//!
//! One binary, since linking wasmtime takes longer than all the tests. No test waits for time to pass: a
//! guest that spins ends by its deadline, one that sleeps by a paused clock.

mod answers;
mod caching;
mod caps;
mod compiling;
mod deadlines;
mod describing;
mod faults;
mod importing;
mod inheriting;
mod lifecycle;
mod lifetimes;
mod loading;
mod reentry;
mod saying;
mod stateful;
mod support;
mod waiting;
mod wasi;
