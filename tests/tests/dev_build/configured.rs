//! Which builds there are: `--build`, `[dev]`, and `[dev]` when it changes.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use hark_tests::hark::{binary, clean};

use crate::{COPY, begun, choose, counts, dev, gone, noted, setup, wrapper, write};

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
    hark.says(&["configuration reloaded: dev\n"]).await;
    hark.shows(&[
        "dropped, since the configuration has changed: pwd; test -e index\n",
        "running: echo other (the configuration has changed)\n",
    ])
    .await;
    counts(&hark, "build            done in ", 4).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["counter reloaded: "]).await;
    counts(&hark, "build            done in ", 5).await;
    assert_eq!(begun(&hark), 5, "what stayed as it was went on: {}", hark.stdout());
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

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_the_file_has_no_more_is_ended_and_what_it_has_instead_begins() -> Result<()> {
    let slow = "echo $$ >> pids; sleep 1000";
    let hark = setup("counter-v1")?.config(&dev(slow))?.start(&["dev"])?;
    let processes = noted(&hark, "pids", 1).await;
    let file = hark.folder().join("hark.toml");
    fs::write(&file, dev(COPY))?;
    hark.shows(&[
        "build            is ended after ",
        &format!("s, since the configuration has changed: {slow}\n"),
        "(the configuration has changed)\n",
        "counter started",
    ])
    .await;
    gone(&processes, || hark.state()).await;
    hark.says(&["configuration reloaded: dev\n"]).await;
    fs::write(&file, "[dev]\n")?;
    hark.shows(&["build            dropped, since the configuration has changed: cp "]).await;
    let shown = hark.stdout();
    assert_eq!((begun(&hark), shown.matches("is ended").count()), (2, 1), "{shown}");
    assert!(!hark.stderr().contains("affected"), "no plugin is: {}", hark.stderr());
    Ok(())
}
