//! Compiling in a process of its own: the child's side.
//!
//! Run by a program that [`super::CompilerProcess`] names, which is the host's own binary with a hidden subcommand.
//! Invariants: reads its standard input, writes an artefact or a reason, touches nothing else; is the first to go when
//! memory runs out; does not outlive its parent. Functions that may be of use to the next version are left in place of
//! the input, since whoever started it has that file.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};
use wasmtime::CacheStore;

use super::backend::Backends;
use super::functions::Functions;
use super::in_place::{self, Pool};
use super::mode::Compile;
use super::order::Order;
use crate::artefacts::{self, Held, Key};
use crate::engine::RunOptions;
use crate::hash::HashedBytes;
use crate::load::LoadError;

/// The exit code of a child whose last line on standard error is a [`LoadError`] as JSON.
pub(super) const REFUSED: u8 = 3;

/// Why a child ends badly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The file's trouble.
    #[error(transparent)]
    Refused(#[from] LoadError),
    #[error("cannot read the file or write the artefact: {0}")]
    Stream(#[from] io::Error),
    #[error("the Wasm engine cannot be set up: {0:#}")]
    Engine(wasmtime::Error),
    #[error("this machine has no such compiler")]
    NoBackend,
    #[error("the parent has ended")]
    Orphan,
    #[error("what is on standard input is not from this very program")]
    NoOrder,
}

/// Compiles the file on standard input and writes the sealed artefact to standard output, for the process `parent`,
/// which has started this one. Call it first thing in `main`: it may lower the priority of the whole process.
pub fn compile_for_parent(mode: Compile, parent: u32) -> ExitCode {
    let (code, message) = match run(mode, parent) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Refused(error)) => (ExitCode::from(REFUSED), serde_json::to_string(&error)),
        Err(failure) => (ExitCode::FAILURE, Ok(failure.to_string())),
    };
    let message = message.unwrap_or_else(|error| error.to_string());
    // If this cannot be said, the exit code says enough.
    let _ = writeln!(io::stderr(), "{message}");
    code
}

fn run(mode: Compile, parent: u32) -> Result<(), Failure> {
    end_with(parent)?;
    offer_to_be_killed();
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let order = Order::read(&input).ok_or(Failure::NoOrder)?;
    in_place::be_nice(order.nice);
    keep_to(memory_for(order.file.len()) + 2 * order.functions.len() as u64);
    let content = HashedBytes::new(order.file);
    let functions = order.lineage.map(|lineage| (lineage, Arc::new(Functions::of(order.functions.to_vec()))));
    let store = functions.as_ref().map(|(_, functions)| Arc::clone(functions) as Arc<dyn CacheStore>);
    let backends = Backends::with_functions(RunOptions::default(), store).map_err(Failure::Engine)?;
    let backend = backends.of(mode).ok_or(Failure::NoBackend)?;
    let artefact = Pool::new(order.nice).artefact(&backends, backend, content.bytes())?;
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    artefacts::write(&mut output, &backend.key(content.hash()), &Held::Artefact, &artefact)?;
    if let Some((lineage, functions)) = functions {
        leave(&backend.functions(&lineage), &functions)?;
    }
    Ok(())
}

/// Writes functions over the input.
fn leave(key: &Key, functions: &Functions) -> io::Result<()> {
    let mut pack = Vec::new();
    functions.write(&mut pack)?;
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    input.set_len(0)?;
    input.rewind()?;
    artefacts::write(&mut input, key, &Held::Functions(pack.len() as u64), &pack)
}

/// Has the system end this process when the thread that started it ends. If that has happened already, somebody else
/// is the parent now.
fn end_with(parent: u32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    let is_parent = getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent));
    if is_parent { Ok(()) } else { Err(Failure::Orphan) }
}

/// Bytes of memory for a file of so many: what is usual, four times over (18 MB of Python take 370 MB, a small file 30).
/// More is asked for by files that are made to.
pub(super) fn memory_for(bytes: usize) -> u64 {
    (1 << 30) + 80 * bytes as u64
}

/// Lets this process have so many bytes of memory and no more; when it asks for them it ends itself.
fn keep_to(bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if let Err(error) = setrlimit(Resource::Data, limit) {
        // The system's own limits hold.
        let _ = writeln!(io::stderr(), "memory is not limited: {error}");
    }
}

/// When memory runs out, this process goes before the host. Where that cannot be said, the system chooses by size.
fn offer_to_be_killed() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}
