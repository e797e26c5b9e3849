//! The two ways of compiling.

use std::fmt;

/// How a plugin is compiled. A change of it is another version of the plugin: the code is another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Compile {
    /// With Cranelift, for speed of the code: 1 to 2.5 s of CPU for each megabyte of Wasm.
    #[default]
    Optimized,
    /// With Winch, which takes a fifth of that time, for code that runs 1.4 to 2.7 times slower. What Winch does not take (tail
    /// calls, GC, exceptions) is compiled with Cranelift.
    Fast,
}

impl Compile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Optimized, Self::Fast];

    /// As the configuration has it, and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Optimized => "optimized",
            Self::Fast => "fast",
        }
    }
}

impl fmt::Display for Compile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
