//! The ways of editors and tools: the tools themselves where they are on the machine, else what they do, call by call.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::{build, mark};
use hark_tests::ways::stage::Stage;
use hark_tests::ways::{Run, pause, slow, tools};

hark_tests::ways! {
    vim_that_copies_and_vim_that_renames
    emacs
    visual_studio_code
    jetbrains
    sed_in_place
    perl_in_place
    rsync
    rsync_in_place
    rsync_itself
    git
    tar
    cp
    cp_that_removes_first
    install
    dd_without_truncating
    a_linker
    wasm_opt_over_its_own_input
}

/// Runs a tool in the plugins folder on the subject's file, for each of some builds.
async fn by_tool(run: Run, program: &str, change: impl Fn(&Stage, u32) -> Result<()>) -> Result<()> {
    if !tools::are_there(run.name, &[program]) {
        return Ok(());
    }
    let mut stage = run.start().await?;
    for number in [2, 3] {
        change(&stage, number)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// An expression that makes one build of the one before.
fn substitution(number: u32) -> String {
    format!("s/{}/{}/", mark(number - 1), mark(number))
}

/// A build beside the folder.
fn beside(stage: &Stage, number: u32) -> Result<String> {
    let path = stage.beside("new.wasm");
    fs::write(&path, build(number))?;
    Ok(path.to_string_lossy().into_owned())
}

async fn vim_that_copies_and_vim_that_renames(run: Run) -> Result<()> {
    if !tools::are_there(run.name, &["vim"]) {
        return Ok(());
    }
    let mut stage = run.start().await?;
    let plain = ["-u", "NONE", "-i", "NONE", "-N", "-b", "-es", "--cmd", "set encoding=latin1 backup"];
    for (number, copy) in [(2, "yes"), (3, "no"), (4, "auto")] {
        let (set, substitute) = (format!("set backupcopy={copy}"), format!("%{}", substitution(number)));
        let words = [&plain[..], &["-c", &set, "-c", &substitute, "-c", "wq", "subject.wasm"]].concat();
        tools::run(&stage.folder, "vim", &words)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// The lock is a link that leads nowhere, the old file becomes the backup, and a new one is written.
async fn emacs(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let at = |name: &str| stage.folder.join(name);
        symlink("me@here.4711:1764478800", at(".#subject.wasm"))?;
        fs::write(at("#subject.wasm#"), build(number))?;
        let _ = fs::remove_file(at("subject.wasm~"));
        fs::rename(stage.subject(), at("subject.wasm~"))?;
        fs::write(stage.subject(), build(number))?;
        fs::remove_file(at("#subject.wasm#"))?;
        fs::remove_file(at(".#subject.wasm"))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// It opens the file, empties it, writes, and syncs.
async fn visual_studio_code(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let mut file = OpenOptions::new().read(true).write(true).open(stage.subject())?;
        file.set_len(0)?;
        file.write_all(&build(number))?;
        file.sync_data()?;
        drop(file);
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// "Safe write": the new file beside the old one, which makes room for it.
async fn jetbrains(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let (new, old) = ("subject.wasm___jb_tmp___", "subject.wasm___jb_old___");
        let (new, old) = (stage.folder.join(new), stage.folder.join(old));
        fs::write(&new, build(number))?;
        fs::rename(stage.subject(), &old)?;
        fs::rename(&new, stage.subject())?;
        fs::remove_file(&old)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn sed_in_place(run: Run) -> Result<()> {
    by_tool(run, "sed", |stage, number| {
        tools::run(&stage.folder, "sed", &["-i.bak", &substitution(number), "subject.wasm"])
    })
    .await
}

async fn perl_in_place(run: Run) -> Result<()> {
    by_tool(run, "perl", |stage, number| {
        tools::run(&stage.folder, "perl", &["-i", "-pe", &substitution(number), "subject.wasm"])
    })
    .await
}

/// A hidden file with random letters behind its name, whose time is set, renamed over.
async fn rsync(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let new = stage.folder.join(".subject.wasm.Xa81bQ");
        slow::write(&new, &slow::parts(&build(number), 4), Duration::from_millis(20)).await?;
        tools::run(&stage.folder, "touch", &["-d", "2001-02-03", ".subject.wasm.Xa81bQ"])?;
        fs::rename(new, stage.subject())?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// `--inplace`: the file is written over block by block, and its time is set when it is closed.
async fn rsync_in_place(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let file = OpenOptions::new().write(true).open(stage.subject())?;
        slow::write_on(file, &slow::parts(&build(number), 4), Duration::from_millis(20)).await?;
        tools::run(&stage.folder, "touch", &["-d", "2001-02-03", "subject.wasm"])?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn rsync_itself(run: Run) -> Result<()> {
    by_tool(run, "rsync", |stage, number| {
        let (new, in_place) =
            (beside(stage, number)?, if number % 2 == 0 { "--inplace" } else { "--partial" });
        tools::run(&stage.folder, "rsync", &["-a", "-I", in_place, &new, "subject.wasm"])
    })
    .await
}

/// A checkout in the plugins folder.
async fn git(run: Run) -> Result<()> {
    if !tools::are_there(run.name, &["git"]) {
        return Ok(());
    }
    let mut stage = run.start().await?;
    let git = |folder: &Path, words: &str| {
        let who =
            "-c user.name=a -c user.email=a@localhost -c commit.gpgsign=false -c init.defaultBranch=main";
        tools::shell(folder, &format!("git {who} {words} >/dev/null"), &[])
    };
    for words in ["init -q", "add subject.wasm", "commit -q -m one", "checkout -q -b other"] {
        git(&stage.folder, words)?;
    }
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    git(&stage.folder, "commit -q -a -m two")?;
    for (branch, number) in [("main", 1), ("other", 2)] {
        git(&stage.folder, &format!("checkout -q {branch}"))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn tar(run: Run) -> Result<()> {
    by_tool(run, "tar", |stage, number| {
        fs::create_dir_all(stage.beside("packed"))?;
        fs::write(stage.beside("packed/subject.wasm"), build(number))?;
        tools::shell(&stage.folder, "tar -C ../packed -cf - subject.wasm | tar -xf -", &[])
    })
    .await
}

async fn cp(run: Run) -> Result<()> {
    by_tool(run, "cp", |stage, number| {
        let (new, reflink) = (beside(stage, number)?, if number % 2 == 0 { "auto" } else { "never" });
        tools::run(&stage.folder, "cp", &[&format!("--reflink={reflink}"), &new, "subject.wasm"])
    })
    .await
}

async fn cp_that_removes_first(run: Run) -> Result<()> {
    by_tool(run, "cp", |stage, number| {
        tools::run(
            &stage.folder,
            "cp",
            &["--remove-destination", "-p", &beside(stage, number)?, "subject.wasm"],
        )
    })
    .await
}

async fn install(run: Run) -> Result<()> {
    by_tool(run, "install", |stage, number| {
        tools::run(&stage.folder, "install", &["-m", "644", &beside(stage, number)?, "subject.wasm"])
    })
    .await
}

async fn dd_without_truncating(run: Run) -> Result<()> {
    by_tool(run, "dd", |stage, number| {
        let from = format!("if={}", beside(stage, number)?);
        tools::run(&stage.folder, "dd", &[&from, "of=subject.wasm", "conv=notrunc", "bs=512", "status=none"])
    })
    .await
}

/// It makes a file of the size that it will have beside the old one, fills it through memory, and renames it.
async fn a_linker(run: Run) -> Result<()> {
    by_tool(run, "python3", |stage, number| {
        let script = "import mmap, os, sys\n\
                      new = open(sys.argv[1], 'rb').read()\n\
                      with open('subject.wasm.tmp1a2b3c', 'w+b') as file:\n\
                      \x20   file.truncate(len(new))\n\
                      \x20   with mmap.mmap(file.fileno(), len(new)) as memory: memory[:] = new\n\
                      os.rename('subject.wasm.tmp1a2b3c', 'subject.wasm')\n";
        tools::run(&stage.folder, "python3", &["-c", script, &beside(stage, number)?])
    })
    .await
}

/// A build of two steps: the linker's output, which is a plugin, and a moment later the optimizer's, over it.
async fn wasm_opt_over_its_own_input(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::write(stage.subject(), build(2))?;
    pause(Duration::from_millis(5)).await;
    fs::write(stage.subject(), build(3))?;
    stage.reloads_up_to(2, &build(3)).await?;
    stage.ends().await
}
