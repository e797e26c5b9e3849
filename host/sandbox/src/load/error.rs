//! Why a file is no plugin, said to its author.
//!
//! Made by every step of `load`, shown by the host as it is. Invariant: each message says what to do, lists
//! all that is wrong of its kind, and shows names from the file only after cleaning.

use std::time::Duration;

use crate::text;

/// Bytes of what a library says about a file.
const DETAIL_BYTES: usize = 2 << 10;

/// Why a file is no plugin.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum LoadError {
    /// Nothing in it.
    #[error("the file is empty: was the build interrupted?")]
    Empty,
    /// More than [`crate::MAX_PLUGIN_BYTES`].
    #[error("the file has {}, more than the {} a plugin may have", text::bytes(*.0), text::bytes(crate::MAX_PLUGIN_BYTES))]
    TooLarge(usize),
    /// Its last section goes on after its end.
    #[error("the file is cut short: it has {have}, but a section in it ends at byte {need}; save it again, best under another name that is then renamed", have = text::bytes(*.have))]
    Truncated {
        /// Bytes there.
        have: usize,
        /// Bytes that there should be at least.
        need: usize,
    },
    /// Its last sections were never written, although the place for them is there.
    #[error("the file was not written to its end: of its {have}, those from byte {from} on are zeros, as when power fails or a copy is broken off; save it again", have = text::bytes(*.have))]
    ZeroTail {
        /// Where its last whole section ends.
        from: usize,
        /// Bytes there, the zeros included.
        have: usize,
    },
    /// Not Wasm at all.
    #[error(
        "the file is not WebAssembly: it looks like {0}; a plugin is a component or a core module (it begins with `\\0asm`)"
    )]
    // Found out before a process is asked to compile, so it never has to come from one.
    NotWasm(#[serde(skip)] &'static str),
    /// Wasm of another version.
    #[error(
        "the file is WebAssembly of an unknown version (header {0:02x?}): build it with a current toolchain"
    )]
    UnknownVersion([u8; 4]),
    /// Compiled to machine code already.
    #[error(
        "the file is compiled machine code (.cwasm or ELF), which is never loaded from a plugin folder: put the .wasm there, the host compiles it"
    )]
    Precompiled,
    /// The text form, where only the binary one is taken.
    #[error("the file is WebAssembly text, which only `hark dev` takes: assemble it (`wasm-tools parse`)")]
    TextNotAllowed,
    /// The text form, with a mistake.
    #[error("the file is WebAssembly text with a mistake: {0}")]
    Wat(String),
    /// Broken, or uses something that nobody knows.
    #[error("the file is not valid WebAssembly: {0}")]
    Invalid(String),
    /// Valid, with a proposal that this host does not have.
    #[error(
        "it uses a WebAssembly proposal that this host does not support ({0}), such as exceptions or garbage collection: build it without"
    )]
    Unsupported(String),
    /// Types or components in it are in each other, level after level.
    #[error(
        "its types or components are in each other more than {0} deep, which no toolchain makes: build it again"
    )]
    TooDeep(usize),
    /// Its parts multiply.
    #[error("its components come to more than {0} instances, which no toolchain makes: build it again")]
    TooManyInstances(u64),
    /// It instantiates a component that only an instantiation tells.
    #[error(
        "it instantiates a component that it imports or gets from an instance, which this host does not take: compose it of components that it has itself"
    )]
    UnknownComponent,
    /// A core module that is no plugin.
    #[error("the core module is not a plugin: it does not export {}; build it with a Hark SDK, as a library (reactor), not as a program", .missing.join(", "))]
    NoCoreHandler {
        /// The functions it lacks.
        missing: Vec<String>,
    },
    /// A core module with a part of the lifecycle.
    #[error("the core module exports some functions of `{wanted}`, but not {}: export all of them, or none", .missing.join(", "), wanted = crate::load::exports::LIFECYCLE)]
    PartialLifecycle {
        /// The functions it lacks.
        missing: Vec<String>,
    },
    /// A core module that cannot become a component.
    #[error("the core module cannot be made a component: {0}")]
    Componentize(String),
    /// It does not compile.
    #[error("the component does not compile: {0}")]
    Compile(String),
    /// It needs what this host does not give: all of it.
    #[error("it imports what this host does not have: {}; a plugin may import hark:plugin@0.1.0 and WASI 0.2's command world", .0.join(", "))]
    UnmetImports(Vec<String>),
    /// It has another idea of one of the imports.
    #[error(
        "it imports a function with another type than the host's, so it was built against another version of the contract: {0}"
    )]
    ImportType(String),
    /// A component that is no plugin.
    #[error("the component is not a plugin: it must export `{wanted}`, and exports {found}; build it with a Hark SDK", wanted = crate::load::exports::HANDLER, found = list_or_nothing(.exports))]
    NoHandler {
        /// What it does export.
        exports: Vec<String>,
    },
    /// It has another idea of the handler: all differences.
    #[error("it exports `{wanted}` with other types, so it was built against another version of the contract: {}", .0.join("; "), wanted = crate::load::exports::HANDLER)]
    ExportType(Vec<String>),
    /// It has another idea of the lifecycle: all differences.
    #[error("it exports `{wanted}` with other types, so it was built against another version of the contract: {}", .0.join("; "), wanted = crate::load::exports::LIFECYCLE)]
    LifecycleType(Vec<String>),
    /// The process that compiles it was killed, crashed or made nonsense.
    #[error(
        "the process that compiled it broke: {0}; save the file again, or touch it, to have it tried again"
    )]
    CompilerBroke(String),
    /// The process that compiles it asked for more bytes of memory than this.
    #[error("compiling it takes more than {}, which is far more than a file of its size should need", text::bytes(usize::try_from(*.0).unwrap_or(usize::MAX)))]
    CompileMemory(u64),
    /// The process that compiles it took too long, and was ended.
    #[error("compiling it took more than {} s (host.compile_timeout) and was ended; save the file again, or touch it, to have it tried again", .0.as_secs_f64())]
    CompileTimeout(Duration),
    /// Its file changed or went away while it was compiled.
    #[error("the file changed while it was compiled")]
    Abandoned,
    /// The system gives the compiler no threads, for now.
    #[error(
        "the compiler has no threads: {0}; raise the limit of processes (ulimit -u, a pod's pids limit), or run fewer plugins"
    )]
    NoThread(String),
    /// A bug in this host, met with this file.
    #[error("loading the file broke the host's compiler; this is a bug of the host's (see its log)")]
    Panicked,
}

impl LoadError {
    /// Whether the same bytes may well be taken at another time: it was the machine's trouble, or lack of time.
    pub fn may_pass(&self) -> bool {
        self.is_want() || matches!(self, Self::CompilerBroke(_) | Self::CompileTimeout(_) | Self::Abandoned)
    }

    /// Whether the machine lacked something, so that nothing was found out about the file.
    pub fn is_want(&self) -> bool {
        matches!(self, Self::NoThread(_))
    }
}

fn list_or_nothing(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// An error of wasmtime's with its causes, safe to show.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    detail(&format!("{error:#}"))
}

/// What a library says in several lines that belong below each other, safe to show. None of the wat parser's has
/// more than 6, of which one is the file's own.
pub(super) fn lines(message: &str) -> String {
    const LINES: usize = 8;
    const LINE_BYTES: usize = 256;
    let lines: Vec<_> = message.lines().take(LINES).map(|line| text::clean(line, LINE_BYTES)).collect();
    lines.join("\n")
}

/// What a library says, safe to show. With `RUST_BACKTRACE` set, some errors have the host's own stack in their text,
/// which says nothing about the file.
pub(super) fn detail(message: &str) -> String {
    let message = message.split("\nStack backtrace:").next().unwrap_or_default();
    text::clean(message.trim_end(), DETAIL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_stack_is_no_part_of_what_is_said_of_a_file() {
        let said = "Winch does not take it: return_call\n\nStack backtrace:\n   0: main\n   1: start";
        assert_eq!(detail(said), "Winch does not take it: return_call");
        assert_eq!(detail("a\nb"), "a\\nb");
    }
}
