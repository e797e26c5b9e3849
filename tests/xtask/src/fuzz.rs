//! `cargo xtask fuzz`: the fuzz targets for as long as asked, one after the other, each on all cores.
//!
//! A target is a unit test named `fuzz_NAME` (see `tests/fuzz`); this builds the tests, asks them which targets they
//! have, and runs those with the environment that makes a target go on. Invariant: a target that dies or does not
//! come to its end is a failure like any other, and what it was at is said.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};

use crate::{fixtures, host, output, plugins, tools};

const USAGE: &str =
    "usage: cargo xtask fuzz [--seconds N] [--seed N] [TARGET…], or cargo xtask fuzz --replay FILE";

/// What a target may take beyond its time, for the last case and for making failing ones smaller.
const GRACE: Duration = Duration::from_secs(120);

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    seconds: Option<u64>,
    seed: Option<u64>,
    replay: Option<PathBuf>,
    names: Vec<String>,
}

/// A test that is a target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    name: String,
    /// Its path in the binary.
    test: String,
    binary: PathBuf,
    /// Where cargo would run it: some read files of their own package.
    folder: PathBuf,
}

/// Runs the targets named, or all.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let asked = parse(arguments)?;
    // Whole plugins are what broken ones are made of.
    plugins::run(&[])?;
    fixtures::run(&[])?;
    let all = targets()?;
    if let Some(file) = &asked.replay {
        return replay(&all, file);
    }
    if let Some(unknown) = asked.names.iter().find(|name| all.iter().all(|target| target.name != **name)) {
        let known: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        bail!("no target is named `{unknown}`; there are {}", known.join(", "));
    }
    let seed = asked.seed.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs()));
    let seconds = asked.seconds.unwrap_or(60);
    let chosen = |target: &&Target| asked.names.is_empty() || asked.names.contains(&target.name);
    let chosen: Vec<&Target> = all.iter().filter(chosen).collect();
    eprintln!("{} targets, {seconds} s each, seed {seed}", chosen.len());
    let failed: Vec<&str> = chosen
        .into_iter()
        .filter_map(|target| {
            target.goes_on(seconds, seed).err().map(|error| {
                eprintln!("{}: {error:#}", target.name);
                target.name.as_str()
            })
        })
        .collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || rest.next().and_then(|text| text.parse().ok()).context(USAGE);
        match argument.as_str() {
            "--seconds" => asked.seconds = Some(number()?),
            "--seed" => asked.seed = Some(number()?),
            "--replay" => asked.replay = Some(rest.next().context(USAGE)?.into()),
            flag if flag.starts_with('-') => bail!("unexpected argument `{flag}`; {USAGE}"),
            name => asked.names.push(name.to_owned()),
        }
    }
    Ok(asked)
}

/// Builds the unit tests of the whole workspace, as `test` does, and lists the targets in them.
fn targets() -> Result<Vec<Target>> {
    let mut build = host::cargo();
    build.args([
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let messages = output::step("building the targets", || tools::capture(&mut build))?;
    let mut all = Vec::new();
    for message in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(message).context("cargo's messages")?;
        let Some(binary) = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)
        else {
            continue;
        };
        let list = tools::capture(Command::new(binary).args(["--list", "--format", "terse"]))?;
        let manifest = message["manifest_path"].as_str().context("a package's manifest")?;
        let folder = Path::new(manifest).parent().context("a package's folder")?;
        all.extend(listed(&list, Path::new(binary), folder));
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// The targets in a test binary's list of its tests.
fn listed(list: &str, binary: &Path, folder: &Path) -> Vec<Target> {
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let targets = tests.filter_map(|test| {
        let name = test.rsplit("::").next()?.strip_prefix("fuzz_")?;
        let (name, test) = (name.to_owned(), test.to_owned());
        Some(Target { name, test, binary: binary.to_owned(), folder: folder.to_owned() })
    });
    targets.collect()
}

impl Target {
    fn goes_on(&self, seconds: u64, seed: u64) -> Result<()> {
        let out = output::target().join("fuzz");
        let mut command = self.command();
        command.env("HARK_FUZZ_SECONDS", seconds.to_string()).env("HARK_FUZZ_SEED", seed.to_string());
        command.stdout(Stdio::piped()).env("RUST_BACKTRACE", "0");
        let mut child = command.env("HARK_FUZZ_OUT", &out).spawn().context("cannot start it")?;
        let status = ended(&mut child, Duration::from_secs(seconds) + GRACE)?;
        match status {
            Some(status) if status.success() => Ok(()),
            // Its own failures it has told of; a process that died could not.
            Some(status) if status.code().is_some() => bail!("it failed"),
            status => {
                let how = status.map_or("it did not end, and was stopped".to_owned(), |status| {
                    format!("it died: {status}")
                });
                bail!("{how}; it was at one of these:\n{}", in_hand(&out, &self.name))
            }
        }
    }

    /// The test alone, saying what it prints.
    fn command(&self) -> Command {
        let corpus = ["guests", "plugins"].map(|folder| output::target().join(folder));
        let mut command = Command::new(&self.binary);
        command
            .args(["--exact", "--nocapture", "--quiet", "--test-threads", "1", &self.test])
            .stdin(Stdio::null());
        command.current_dir(&self.folder);
        command.env("HARK_FUZZ_CORPUS", std::env::join_paths(corpus).unwrap_or_default());
        command
    }
}

/// How a process ended within a time; none: it did not, and was killed. Its standard output ends with it.
fn ended(child: &mut Child, within: Duration) -> Result<Option<ExitStatus>> {
    let mut output = child.stdout.take().context("its standard output")?;
    let (end, at_end) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        // The test harness has nothing to add to what the target says on standard error.
        let copied = std::io::copy(&mut output, &mut std::io::sink());
        // Nobody listens any longer if it took too long.
        let _ = end.send(copied);
    });
    let in_time = at_end.recv_timeout(within).is_ok();
    if !in_time {
        child.kill()?;
    }
    let status = child.wait()?;
    reader.join().map_err(|_| anyhow!("reading its output panicked"))?;
    Ok(in_time.then_some(status))
}

/// What the threads of a target were at, as commands that do it again.
fn in_hand(out: &Path, name: &str) -> String {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_target = |path: &PathBuf| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}-thread-")))
    };
    let lines =
        entries.filter(of_target).map(|path| format!("  cargo xtask fuzz --replay {}\n", path.display()));
    lines.collect()
}

/// Runs one saved case again; its file's name begins with its target's.
fn replay(all: &[Target], file: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (name, _) = name.split_once('-').with_context(|| format!("{name} is no file that a target saved"))?;
    let target = all.iter().find(|target| target.name == name);
    let target = target.with_context(|| format!("no target is named `{name}`"))?;
    let file = file.canonicalize().with_context(|| format!("cannot read {}", file.display()))?;
    tools::run(target.command().env("HARK_FUZZ_REPLAY", file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers_names_and_a_file() {
        let parse = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).ok();
        let names = vec!["sniff".to_owned(), "wat".to_owned()];
        let want = Asked { seconds: Some(5), seed: Some(7), replay: None, names };
        assert_eq!(parse("--seconds 5 sniff --seed 7 wat"), Some(want));
        assert_eq!(parse(""), Some(Asked::default()));
        assert_eq!(parse("--replay a.bin"), Some(Asked { replay: Some("a.bin".into()), ..Asked::default() }));
        for wrong in ["--seconds", "--seconds x", "--replay", "--all"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_target_is_a_test_by_its_name() {
        let list =
            "load::fuzz::sniffing::fuzz_sniff: test\ntext::tests::fuzzy: test\nfuzz_top: test\n\n3 tests\n";
        let names: Vec<String> =
            listed(list, Path::new("b"), Path::new("f")).into_iter().map(|target| target.name).collect();
        assert_eq!(names, ["sniff", "top"]);
    }
}
