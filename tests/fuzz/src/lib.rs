//! Runs fuzz targets, and has the inputs that several of them share.
//!
//! Used by the unit tests of the host's crates. A target is a test named `fuzz_NAME` that calls [`values`] or
//! [`files`] with a proptest strategy and a check; it lives beside the code that it looks at. With the tests it
//! tries a fixed number of cases, the same in every run. `cargo xtask fuzz` runs the same test for as long as
//! asked, on all cores, with cases of its own (`mode`). Invariant: a case is known by one number
//! (its seed), from which its input can be made again.

mod bytes;
mod case;
mod corpus;
mod mode;
mod report;
mod run;
mod sections;
mod words;

pub use bytes::{Bytes, Edit, edit, edited};
pub use corpus::corpus;
pub use run::{Target, files, values};
pub use sections::{Cut, Mutated, cut, mutated, sections};
pub use words::{odd_char, odd_text};
