//! Lines for the operator. Used by plugin authors through the macros, and by the panic hook. Invariant: one
//! call is one line; the host adds the plugin's name, the event and the time, so a line needs none of them.
//!
//! ```
//! use hark_guest::log;
//!
//! let restarts = 3;
//! log::warn!("web restarted {restarts} times");
//! ```

use std::fmt;

use crate::host;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For following every step.
    Trace,
    /// For finding a fault.
    Debug,
    /// Worth knowing.
    Info,
    /// Something an operator should look at.
    Warn,
    /// Something failed.
    Error,
}

/// Writes one line. The host cuts it to 8 KiB, and drops lines above 1,000 a second.
pub fn write(level: Level, line: fmt::Arguments<'_>) {
    match line.as_str() {
        Some(text) => host::log(level, text),
        None => host::log(level, &line.to_string()),
    }
}

/// Sends panics to the log before they trap: by itself Wasm would end in a bare `unreachable`.
pub(crate) fn catch_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let message = panic.payload_as_str().unwrap_or("(no message)");
            match panic.location() {
                Some(place) => write(Level::Error, format_args!("panicked at {place}: {message}")),
                None => write(Level::Error, format_args!("panicked: {message}")),
            }
        }));
    });
}

/// Defines one macro for each level.
macro_rules! level_macros {
    ($d:tt $($name:ident $inner:ident $level:ident,)*) => {$(
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $inner {
            ($d($d argument:tt)+) => {
                $crate::log::write($crate::log::Level::$level, ::std::format_args!($d($d argument)+))
            };
        }

        #[doc = concat!("Writes a line of level [`Level::", stringify!($level), "`], formatted as by `format!`.")]
        #[doc(inline)]
        pub use $inner as $name;
    )*};
}
level_macros! { $
    trace __hark_trace Trace,
    debug __hark_debug Debug,
    info __hark_info Info,
    warn __hark_warn Warn,
    error __hark_error Error,
}
