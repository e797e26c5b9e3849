//! Stub, filled next.
fn main() {}
