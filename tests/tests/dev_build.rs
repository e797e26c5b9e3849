//! `hark dev --build` and `[dev]` as a plugin author uses them: the built binary, real shells, real files.
//!
//! A build here copies the file whose path stands in `src/which` into the plugins folder, so a test says by one line of
//! text what comes of it. That something does *not* start a build is shown by the next one that does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup, binary, clean};

/// Copies what `src/which` names, under a name that is no plugin's first.
const COPY: &str =
    r#"cp "$(cat src/which)" "$HARK_PLUGINS/.new" && mv "$HARK_PLUGINS/.new" "$HARK_PLUGINS/counter.wasm""#;

/// A folder with `src/which` naming a fixture.
fn setup(guest: &str) -> Result<Setup> {
    let setup = Setup::new()?;
    fs::create_dir(setup.folder().join("src"))?;
    choose(setup.folder(), guest)?;
    Ok(setup)
}

fn choose(folder: &Path, guest: &str) -> Result<()> {
    Ok(fs::write(folder.join("src/which"), fixture(guest).to_string_lossy().as_bytes())?)
}

/// `[dev]` with a command whose sources are `src`.
fn dev(command: &str) -> String {
    format!("[dev]\nbuild = '''{command}'''\nsources = [\"src\"]\n")
}

fn write(hark: &Hark, file: &str, text: &str) -> Result<()> {
    let path = hark.folder().join(file);
    fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(fs::write(path, text)?)
}

/// A program that does something before it becomes `HARK`, with the folder that it lies in.
fn wrapper(script: &str) -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("hark");
    let script = script.replace("HARK", &binary().display().to_string());
    fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755))?;
    Ok((folder, program))
}

/// How many builds have begun.
fn begun(hark: &Hark) -> usize {
    hark.stdout().matches("build            running: ").count()
}

async fn counts(hark: &Hark, text: &str, count: usize) {
    let what = format!("{text:?} {count} times on standard output");
    let enough = async || (hark.stdout().matches(text).count() >= count).then_some(());
    eventually(&what, || hark.state(), enough).await;
}

/// The processes that a build has noted in a file, once there are so many.
async fn noted(hark: &Hark, file: &str, count: usize) -> Vec<PathBuf> {
    let read = async || {
        let text = fs::read_to_string(hark.folder().join(file)).ok()?;
        let all: Vec<PathBuf> = text.lines().map(|line| Path::new("/proc").join(line)).collect();
        (all.len() >= count).then_some(all)
    };
    eventually(&format!("{count} processes in {file}"), || hark.state(), read).await
}

async fn gone(processes: &[PathBuf], state: impl Fn() -> String) {
    let none = async || (!processes.iter().any(|process| process.exists())).then_some(());
    eventually(&format!("the end of {processes:?}"), state, none).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_source_builds_and_the_plugin_reloads() -> Result<()> {
    let hark = setup("counter-v1")?.start(&["dev", "--build", COPY])?;
    hark.shows(&[
        "build            running: cp ",
        "build            done in ",
        "counter started: counter 1 (",
    ])
    .await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    // The same content again, by writing and by renaming; what is ignored; what is hidden: none of it counts.
    choose(hark.folder(), "counter-v2")?;
    write(&hark, ".gitignore", "*.log\n")?;
    write(&hark, "src/x.log", "x")?;
    write(&hark, "src/.hidden", "x")?;
    write(&hark, "src/which~", "x")?;
    fs::copy(hark.folder().join("src/which"), hark.folder().join("again"))?;
    fs::rename(hark.folder().join("again"), hark.folder().join("src/which"))?;
    write(&hark, "src/deep/er/new", "x")?;
    hark.shows(&["(src/deep/er/new added"]).await;
    counts(&hark, "build            done in ", 3).await;
    write(&hark, "src/deep/er/new", "y")?;
    hark.shows(&["(src/deep/er/new changed"]).await;
    counts(&hark, "build            done in ", 4).await;
    fs::remove_dir_all(hark.folder().join("src/deep"))?;
    hark.shows(&["(src/deep/er/new removed"]).await;
    counts(&hark, "build            done in ", 5).await;
    assert_eq!(begun(&hark), 5, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_shows_its_output_and_the_old_version_goes_on() -> Result<()> {
    let command = format!(
        r"test -e src/broken && {{ printf 'one\n' >&2; echo two; printf '\033[31mthree\033[2J\033[0m\n' >&2; exit 101; }}; {COPY}"
    );
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["counter started"]).await;
    write(&hark, "src/broken", "")?;
    hark.shows(&["build            FAILED (exit 101) after ", "\n    one\n    two\n    three\n"]).await;
    fs::remove_file(hark.folder().join("src/broken"))?;
    hark.shows(&["(src/broken removed"]).await;
    counts(&hark, "build            done in ", 2).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["counter reloaded: "]).await;
    assert!(!hark.stdout().contains("stopped"), "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outdated_build_is_ended_with_all_of_its_processes_also_if_they_ignore_it() -> Result<()> {
    let command = format!(
        "trap '' TERM; if grep -q slow src/which; then \
         sh -c 'echo $$ >> pids; sleep 1000' & echo $$ >> pids; sleep 1000; fi; {COPY}"
    );
    let setup = setup("counter-v1")?.config(&dev(&command))?;
    fs::write(setup.folder().join("src/which"), "slow")?;
    let hark = setup.start(&["dev"])?;
    let processes = noted(&hark, "pids", 2).await;
    choose(hark.folder(), "counter-v1")?;
    hark.shows(&["build            outdated after ", "is ended: src/which changed", "counter started"]).await;
    gone(&processes, || hark.state()).await;
    assert_eq!(begun(&hark), 2, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_saves_at_once_are_few_builds_and_the_last_content_counts() -> Result<()> {
    let hark = setup("counter-v1")?.config(&dev(COPY))?.start(&["dev"])?;
    hark.shows(&["counter started"]).await;
    for save in 0..50 {
        write(&hark, &format!("src/{save}"), "x")?;
    }
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["counter reloaded: "]).await;
    // One, if the machine was not so busy that the saves took longer than sources must be still.
    assert!(begun(&hark) <= 4, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn output_among_the_sources_comes_to_rest() -> Result<()> {
    let command = format!(
        "{COPY} && cat src/which src/which > src/generated && mkdir -p src/out && cp src/which src/out/copy"
    );
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["(src/generated added, and 1 more while it ran)"]).await;
    counts(&hark, "build            done in ", 2).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&[
        "(src/which changed",
        "counter reloaded: ",
        "(src/generated changed, and 1 more while it ran)",
    ])
    .await;
    counts(&hark, "build            done in ", 4).await;
    write(&hark, "src/last", "x")?;
    hark.shows(&["(src/last added"]).await;
    counts(&hark, "build            done in ", 5).await;
    assert_eq!(begun(&hark), 5, "{}", hark.stdout());
    assert!(!hark.stdout().contains("outdated"), "its own outputs do not end it: {}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_differs_each_time_is_recognised_and_starts_nothing_any_more() -> Result<()> {
    let command = format!("{COPY} && date +%s.%N > src/stamp");
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["it writes src/stamp otherwise each time", "put it into `ignore` of [dev]"]).await;
    assert_eq!(begun(&hark), 4, "{}", hark.stdout());
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    counts(&hark, "build            done in ", 5).await;
    write(&hark, "src/other", "x")?;
    hark.shows(&["(src/other added"]).await;
    counts(&hark, "build            done in ", 6).await;
    assert_eq!(
        (begun(&hark), hark.stdout().matches("otherwise each time").count()),
        (6, 1),
        "{}",
        hark.stdout()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_build_leaves_running_is_ended_and_said() -> Result<()> {
    let command =
        format!("{COPY}; sleep 1000 & echo $! > pids; (trap '' TERM; sleep 1000) & echo $! >> pids");
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&[
        "build            done in ",
        "processes that it left running were ended",
        "counter started",
    ])
    .await;
    let processes = noted(&hark, "pids", 2).await;
    gone(&processes, || hark.state()).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_build_outlives_hark_however_that_ends() -> Result<()> {
    for (signal, orderly) in [("INT", true), ("KILL", false)] {
        let command = "sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 1000' & echo $$ >> pids; sleep 1000";
        let mut hark = setup("counter-v1")?.config(&dev(command))?.start(&["dev"])?;
        let processes = noted(&hark, "pids", 2).await;
        hark.signal(signal)?;
        assert_eq!(hark.ends().await?.success(), orderly, "{}", hark.state());
        if orderly {
            assert!(!processes.iter().any(|process| process.exists()), "Hark waits for them");
        }
        gone(&processes, || hark.state()).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_holds_nothing_up_and_is_not_kept() -> Result<()> {
    let command = "echo begins; yes 0123456789012345678901234567890123456789 | head -c 100000000; echo; echo ends; exit 3";
    let hark = setup("counter-v1")?.config(&dev(command))?.start(&["dev"])?;
    hark.shows(&[
        "    begins\n",
        "FAILED (exit 3) after ",
        "bytes of output are left out here",
        "    ends\n",
    ])
    .await;
    let stdout = hark.stdout();
    assert!(stdout.len() < 100_000, "{} bytes", stdout.len());
    let status = fs::read_to_string(format!("/proc/{}/status", hark.pid()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a peak")?;
    let kib: usize = peak.trim().trim_end_matches(" kB").parse()?;
    assert!(kib < 80 << 10, "{kib} KiB of memory at most, where 100 MB were written");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_of_the_file_run_one_after_the_other_and_follow_it_when_it_changes() -> Result<()> {
    let setup = setup("counter-v1")?;
    fs::create_dir(setup.folder().join("web"))?;
    fs::write(setup.folder().join("web/index"), "x")?;
    let config = format!(
        "[dev]\nignore = [\"*.log\"]\n[[dev.build]]\nrun = '''{COPY}'''\nsources = [\"src\"]\n\
         [[dev.build]]\nrun = 'pwd; test -e index'\nin = \"web\"\n"
    );
    let hark = setup.config(&config)?.start(&["dev"])?;
    hark.shows(&["running: cp ", "running: pwd; test -e index", "/web\n", "counter started"]).await;
    counts(&hark, "build            done in ", 2).await;
    let shown = hark.stdout();
    assert!(shown.find("running: cp ") < shown.find("running: pwd"), "in the file's order: {shown}");
    write(&hark, "web/x.log", "x")?;
    write(&hark, "web/index", "y")?;
    hark.shows(&["running: pwd; test -e index (index changed"]).await;
    counts(&hark, "build            done in ", 3).await;
    let file = hark.folder().join("hark.toml");
    fs::write(&file, "[dev]\nbuild = 7\nsources = []\nspeed = 1\n")?;
    hark.says(&[
        "hark.toml has 3 errors",
        "dev.build: expected a command line or an array of tables, found an integer",
        "dev.sources: expected at least one path, found an empty array",
        "dev.speed: unknown key",
        "what was configured before stays",
    ])
    .await;
    fs::write(&file, config.replace("pwd; test -e index", "echo other"))?;
    hark.shows(&["running: echo other\n"]).await;
    counts(&hark, "build            done in ", 4).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["counter reloaded: "]).await;
    counts(&hark, "build            done in ", 5).await;
    assert_eq!(begun(&hark), 5, "what stayed as it was went on: {}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_and_what_goes_nowhere_is_said() -> Result<()> {
    let config = "[[dev.build]]\nrun = \"true\"\nin = \"gone\"\n[[dev.build]]\nrun = \"nosuchcommand\"\nsources = [\"src\"]\n\
                  [[dev.build]]\nrun = \"echo x > out.wasm\"\nsources = [\"src\"]\n[[dev.build]]\nrun = 'kill -9 $$'\nsources = [\"src\"]\n";
    let hark = setup("counter-v1")?.config(config)?.start(&["dev"])?;
    hark.shows(&[
        "FAILED, it cannot be run: there is no folder ",
        "cannot read the sources in ",
        "FAILED (exit 127: sh does not find a command) after ",
        "nosuchcommand",
        "has changed: is the output copied there ($HARK_PLUGINS)?",
        "FAILED (signal 9) after ",
    ])
    .await;
    fs::create_dir(hark.folder().join("gone"))?;
    write(&hark, "gone/x", "x")?;
    hark.shows(&["running: true (x added"]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugins_folder_is_made_and_the_command_line_comes_before_the_file() -> Result<()> {
    let command = "echo made for $HARK_PLUGINS; echo files $(ulimit -Sn); test -d \"$HARK_PLUGINS\"";
    let (_folder, program) = wrapper("ulimit -Sn 512; exec HARK \"$@\"")?;
    let setup = setup("counter-v1")?.program(&program).config("[dev]\nbuild = \"echo of the file\"\n")?;
    let hark = setup.start(&["dev", "--plugins", "built/plugins", "--build", command])?;
    let plugins = hark.folder().join("built/plugins");
    hark.shows(&[
        &format!("    made for {}\n", plugins.display()),
        "    files 512\n",
        "build            done in ",
    ])
    .await;
    assert!(!hark.stdout().contains("of the file"));
    assert!(
        !hark.stderr().contains("cannot read plugins folder"),
        "made before anybody looks: {}",
        hark.stderr()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_system_watches_no_more_folders_the_clock_looks() -> Result<()> {
    // A user namespace has a limit of its own. Two folders of sources are more than one.
    let limited = "echo 1 > /proc/sys/user/max_inotify_watches && exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "sh", "-c", limited, "sh"]);
    if !Command::new(unshare.get_program()).args(unshare.get_args()).arg("true").status()?.success() {
        eprintln!("skipped: no user namespace is to be had here");
        return Ok(());
    }
    let (_folder, program) =
        wrapper(&format!("exec unshare --user --map-root-user sh -c '{limited}' sh HARK \"$@\""))?;
    let setup = setup("counter-v1")?.config(&dev(COPY))?.program(&program);
    fs::create_dir(setup.folder().join("src/deep"))?;
    let hark = setup.start(&["dev"])?;
    hark.shows(&[
        "sources are looked at by the clock: 2 folders of sources are more than the system watches",
        "counter started",
    ])
    .await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    assert_eq!(hark.stdout().matches("looked at by the clock").count(), 1, "{}", hark.stdout());
    Ok(())
}

/// Starts the guard by itself.
fn guard(folder: &Path, command: &str) -> Result<std::process::Child> {
    let mut guard = clean(Command::new(binary()));
    guard.args(["run-build", "--"]).arg(folder).arg(command);
    let piped = std::process::Stdio::piped;
    Ok(guard.stdin(piped()).stdout(piped()).stderr(piped()).spawn()?)
}

#[test]
fn the_guard_says_what_became_of_a_command_and_has_its_words_in_order() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (command, report) in [
        ("echo a; echo b >&2; echo c; exit 7", "{\"ending\":{\"Exited\":7},\"left\":0,"),
        ("echo a; echo b >&2; echo c; kill -TERM $$", "{\"ending\":{\"Killed\":15},\"left\":0,"),
        ("echo a; echo b >&2; echo c; sleep 1000 &", "{\"ending\":{\"Exited\":0},\"left\":1,"),
    ] {
        let mut guard = guard(folder.path(), command)?;
        let lifeline = guard.stdin.take();
        let output = guard.wait_with_output()?;
        drop(lifeline);
        assert_eq!(String::from_utf8(output.stderr)?, "a\nb\nc\n", "{command}");
        let said = String::from_utf8(output.stdout)?;
        assert!(said.starts_with(report) && said.ends_with("}\n"), "{command}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_guard_whose_lifeline_ends_kills_also_what_is_stopped() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut guard = guard(folder.path(), "echo $$ >&2; kill -STOP $$")?;
    let mut first = String::new();
    let mut words = std::io::BufReader::new(guard.stderr.take().context("its words")?);
    std::io::BufRead::read_line(&mut words, &mut first)?;
    let process = Path::new("/proc").join(first.trim());
    let stopped = async || fs::read_to_string(process.join("stat")).ok()?.contains(") T ").then_some(());
    eventually("the command to stop itself", || first.clone(), stopped).await;
    drop(guard.stdin.take());
    let output = guard.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    assert!(said.starts_with("{\"ending\":{\"Killed\":9},\"left\":0,"), "{said}");
    assert!(!process.exists());
    Ok(())
}

#[test]
fn only_dev_builds_and_a_command_must_say_something() -> Result<()> {
    for arguments in [["run", "--build", "true"], ["dev", "--build", " "]] {
        let output = clean(Command::new(binary())).args(arguments).output()?;
        ensure!(output.status.code() == Some(2), "{arguments:?}: {:?}", output.status);
        let said = String::from_utf8(output.stderr)?;
        ensure!(said.contains("--build"), "{said}");
    }
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("hark.toml"), "[dev]\nbuild = \"\"\n")?;
    let output = clean(Command::new(binary())).arg("run").current_dir(&folder).output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(said.contains("dev.build: expected a command line, found \"\""), "checked by `run` too: {said}");
    Ok(())
}
