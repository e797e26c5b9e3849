//! What it costs to load a plugin: compiled in each way, in this process and in one of its own, and found again.
//!
//! `cargo run --release -p hark-sandbox --example compiling -- target/guests/counter-v1.wasm`
//!
//! Each figure is from a fresh process, the least of the rounds (one, if loading takes more than a second): the time on the
//! clock from the file's bytes to a plugin, and the memory of its own (RssAnon) that the process has more afterwards,
//! with the plugin loaded and the bytes given back.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use hark_sandbox::{
    ArtefactCache, Compile, CompilerProcess, Engine, EngineOptions, LoadOptions, compile_for_parent,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 5;
const SLOW: Duration = Duration::from_secs(1);

/// Names of the ways, as the first argument of a process that measures one.
const HERE: &str = "here";
const PROCESS: &str = "process";
const CACHED: &str = "cached";

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["compile", compiler, parent] => return Ok(compile_for_parent(mode(compiler)?, parent.parse()?)),
        [way @ (HERE | PROCESS | CACHED), compiler, file, cache] => {
            let (took, more) = measure(way, mode(compiler)?, Path::new(file), Path::new(cache))?;
            println!("{} {more}", took.as_micros());
        }
        ref files => files.iter().try_for_each(|file| report(file))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn mode(name: &str) -> Result<Compile, Failure> {
    Compile::ALL.into_iter().find(|mode| mode.as_str() == name).ok_or_else(|| format!("{name}?").into())
}

/// A line for each way and compiler.
fn report(file: &str) -> Result<(), Failure> {
    println!("{file}, {} bytes", std::fs::metadata(file)?.len());
    for compiler in Compile::ALL {
        for way in [HERE, PROCESS, CACHED] {
            let (took, more) = least(way, compiler, file)?;
            println!("  {compiler:<9} {way:<7} {:>9.1} ms {more:>7} KiB more", took.as_secs_f64() * 1000.0);
        }
    }
    Ok(())
}

/// The fastest of several processes that measure the same.
fn least(way: &str, compiler: Compile, file: &str) -> Result<(Duration, i64), Failure> {
    let cache = tempfile::tempdir()?;
    let mut best: Option<(Duration, i64)> = None;
    for _ in 0..ROUNDS {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args([way, compiler.as_str(), file]).arg(cache.path()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let (micros, more) = text.trim().split_once(' ').ok_or("it failed; try it by hand")?;
        let one = (Duration::from_micros(micros.parse()?), more.parse()?);
        best = Some(best.map_or(one, |best| best.min(one)));
        if one.0 > SLOW {
            break;
        }
    }
    best.ok_or_else(|| "no rounds".into())
}

/// Loads the plugin once; with `cached`, another engine has done so before (in a process of its own, so that this one
/// is as it would be after a start).
fn measure(way: &str, compile: Compile, file: &Path, cache: &Path) -> Result<(Duration, i64), Failure> {
    let process = CompilerProcess {
        program: std::env::current_exe()?,
        arguments: vec!["compile".into()],
        smallest: 0,
        timeout: Duration::from_secs(600),
    };
    let cache =
        (way == CACHED).then(|| ArtefactCache::open(&cache.join("artefacts"), 1 << 40)).transpose()?;
    let process = (way != HERE).then_some(process);
    let engine = Engine::with(EngineOptions { cache: cache.clone(), process, ..EngineOptions::default() })?;
    let options = LoadOptions { compile, ..LoadOptions::default() };
    if way == CACHED {
        engine.load(&std::fs::read(file)?, options)?;
    }
    let (before, bytes) = (own_memory()?, std::fs::read(file)?);
    let begun = Instant::now();
    let plugin = engine.load(&bytes, options)?;
    let took = begun.elapsed();
    drop(bytes);
    let more = own_memory()? - before;
    if plugin.how().cached != (way == CACHED) {
        return Err(format!("{way}, but {:?}", plugin.how()).into());
    }
    Ok((took, more))
}

/// `RssAnon`, in KiB: memory that belongs to nobody else, and to no file.
fn own_memory() -> Result<i64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
