//! Compiling in a process of its own: the parent's side.
//!
//! Used by the compiler for large files, and for small ones with much work in them. The child gets the file as its standard input, and writes the sealed artefact to
//! its standard output and, if there is none, the reason to its standard error; all three are files in memory, so nobody
//! ever waits for the other to read. (With the file come functions of versions before, and in its place new ones are
//! left: `order`, `functions`.) (The artefact is then copied into the cache by the parent: a full disk is not the
//! plugin's fault, and a child that is killed leaves nothing behind.) Invariants: the child has no environment, no
//! descriptor of the host's but those three, and a process group of its own, so that a Ctrl-C is the host's alone; it ends when it has
//! taken too long, when its result is no longer wanted, and with the thread that waits for it. What comes from it is
//! used only if its seal is whole.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use wasmtime::component::Component;

use super::backend::Backend;
use super::{Key, Task};
use super::{child, order};
use crate::artefacts::{self, Checked, Content, Functions};
use crate::load::{self, LoadError};
use crate::text;

/// Time between two looks at the child.
const POLL: Duration = Duration::from_millis(5);
/// Bytes of what a child says that are read.
const MESSAGES_MAX: u64 = 64 << 10;
/// Bytes of it that are logged.
const LOGGED_MAX: usize = 4 << 10;

/// Bytes of the smallest file for which a process of its own is worth its while. It costs 5 to 50 ms more; a file of this size
/// takes 80 ms with Winch and 360 ms with Cranelift, and leaves 5 to 8 MB behind in a process that compiles it itself
/// (`examples/compiling.rs`, on two busy cores).
pub const LARGE_PLUGIN_BYTES: usize = 128 << 10;

/// How to start a process that compiles: a program that ends up in [`crate::compile_for_parent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerProcess {
    /// The program. It must be the very executable that runs, or artefacts do not fit (they are refused then).
    pub program: PathBuf,
    /// Its first arguments. The mode and the parent's process number follow them.
    pub arguments: Vec<OsString>,
    /// Bytes of the smallest file that it is started for, usually [`LARGE_PLUGIN_BYTES`].
    pub smallest: usize,
    /// How long it may take, on the clock.
    pub timeout: Duration,
}

/// What a process is to do.
pub(super) struct Job<'a> {
    pub(super) task: Task<'a>,
    pub(super) key: &'a Key,
    pub(super) nice: u8,
    /// What its functions are to be kept under, and those there are; none: they are not wanted.
    pub(super) functions: Option<(Key, Option<Functions>)>,
}

/// Why there is no artefact.
pub(super) enum Failure {
    /// The file's trouble.
    Refused(LoadError),
    /// The machine's: nothing was tried.
    NotStarted(io::Error),
}

/// What a child made.
pub(super) struct Artefact {
    code: Checked,
    pub(super) functions: Option<Functions>,
}

/// The child's standard streams.
struct Streams {
    input: File,
    output: File,
    messages: File,
}

/// A child that does not outlive whoever waits for it.
struct Running(Child);

impl CompilerProcess {
    /// Compiles a file, and waits for it on this thread.
    pub(super) fn compile(&self, job: &Job<'_>) -> Result<Artefact, Failure> {
        let Job { task, key, .. } = job;
        let streams = Streams::new(job).map_err(Failure::NotStarted)?;
        let mut child = self.start(&streams, key).map_err(Failure::NotStarted)?;
        let status = child.wait(self.timeout, task.wanted).map_err(Failure::Refused)?;
        let messages = messages(streams.messages);
        let result = if status.success() {
            result(streams.output, key)
                .map(|code| Artefact { code, functions: functions(streams.input, job) })
        } else {
            Err(refusal(status, &messages, child::memory_for(task.content.bytes().len())))
        };
        if matches!(result, Err(LoadError::CompilerBroke(_) | LoadError::Panicked)) && !messages.is_empty() {
            let content = key.content().short();
            tracing::error!("compiling {content}: {}", text::clean(&messages, LOGGED_MAX));
        }
        result.map_err(Failure::Refused)
    }

    fn start(&self, streams: &Streams, key: &Key) -> io::Result<Running> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .args([key.mode().as_str(), &std::process::id().to_string()])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(streams.input.try_clone()?))
            .stdout(Stdio::from(streams.output.try_clone()?))
            .stderr(Stdio::from(streams.messages.try_clone()?));
        command.spawn().map(Running)
    }
}

impl Streams {
    fn new(job: &Job<'_>) -> io::Result<Self> {
        let mut streams = Self {
            input: memory("hark-wasm")?,
            output: memory("hark-artefact")?,
            messages: memory("hark-messages")?,
        };
        let (input, file) = (&mut streams.input, job.task.content.bytes());
        input.write_all(file)?;
        let lineage = job.functions.as_ref().and(job.task.lineage.as_ref());
        if let Some((_, Some(functions))) = &job.functions {
            io::copy(&mut functions.reader()?, input)?;
        }
        order::write_tail(input, file.len(), job.nice, lineage)?;
        input.rewind()?;
        Ok(streams)
    }
}

fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

impl Running {
    /// Waits for its end, at most for `limit` and while it is wanted.
    fn wait(&mut self, limit: Duration, wanted: &dyn Fn() -> bool) -> Result<ExitStatus, LoadError> {
        let begun = Instant::now();
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => {
                    return Err(LoadError::CompilerBroke(format!("it cannot be waited for: {error}")));
                }
            }
            if begun.elapsed() >= limit {
                return Err(LoadError::CompileTimeout(limit));
            }
            if !wanted() {
                return Err(LoadError::Abandoned);
            }
            // Returning early makes one look more and no harm.
            thread::park_timeout(POLL);
        }
    }
}

impl Drop for Running {
    /// One that has ended is not killed: the standard library knows that it has been waited for.
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            tracing::warn!("cannot end the process that compiles ({}): {error}", self.0.id());
        }
    }
}

impl Artefact {
    /// All of it, with its seal.
    pub(super) fn reader(&self) -> io::Result<File> {
        self.code.reader()
    }

    /// Mapped from memory.
    pub(super) fn component(&self, backend: &Backend) -> Result<Component, LoadError> {
        artefacts::component(&backend.engine, &self.code)
            .map_err(|error| LoadError::Compile(load::chain(&error)))
    }
}

/// What a child that ended well has made.
fn result(output: File, key: &Key) -> Result<Checked, LoadError> {
    match artefacts::check(output, key) {
        Ok(Content::Artefact(artefact)) => Ok(artefact),
        Ok(Content::Refusal(_) | Content::Functions(_)) => {
            Err(LoadError::CompilerBroke("it wrote no artefact".to_owned()))
        }
        Err(damage) => Err(LoadError::CompilerBroke(format!("its artefact cannot be used: {damage}"))),
    }
}

/// What a child that ended well has left in place of its input.
fn functions(input: File, job: &Job<'_>) -> Option<Functions> {
    let (key, _) = job.functions.as_ref()?;
    match artefacts::check(input, key) {
        Ok(Content::Functions(functions)) => Some(functions),
        Ok(_) => None,
        Err(damage) => {
            tracing::debug!("the functions that were compiled are not kept: {damage}");
            None
        }
    }
}

/// Why a child that ended badly, which might have had so many bytes of memory, has made nothing.
fn refusal(status: ExitStatus, messages: &str, memory: u64) -> LoadError {
    let last = messages.lines().next_back().unwrap_or_default();
    if status.code() == Some(i32::from(child::REFUSED))
        && let Ok(error) = serde_json::from_str(last)
    {
        return error;
    }
    // The standard library's words, before it aborts.
    if status.signal() == Some(6) && messages.contains("memory allocation of ") {
        return LoadError::CompileMemory(memory);
    }
    LoadError::CompilerBroke(match (status.signal(), status.code()) {
        (Some(9), _) => {
            "it was killed (signal 9), which is what the system does when memory runs out".to_owned()
        }
        (Some(signal), _) => format!("it was ended by signal {signal}"),
        (None, Some(code)) => format!("it ended with exit code {code}"),
        (None, None) => "it ended".to_owned(),
    })
}

fn messages(mut file: File) -> String {
    let mut bytes = Vec::new();
    match file.rewind().and_then(|()| file.take(MESSAGES_MAX).read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("what it said cannot be read: {error}"),
    }
}
