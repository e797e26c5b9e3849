//! What lies in a plugins folder and is no plugin, and contents that are none.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::{Run, pause, tools};

hark_tests::ways! {
    things_that_are_no_files
    names_that_are_no_plugins
    names_that_nobody_mentions
    an_empty_file_that_is_new
    a_file_that_is_too_large
    a_file_of_another_kind
    the_subject_replaced_by_a_folder
}

async fn things_that_are_no_files(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let (fifo, device) = (stage.plugin("fifo"), stage.plugin("device"));
    tools::run(&stage.folder, "mkfifo", &[&fifo])?;
    let socket = UnixListener::bind(stage.plugin("socket"))?;
    fs::create_dir(stage.plugin("folder"))?;
    for name in ["fifo", "socket", "folder"] {
        stage.warns(&format!("{name}.wasm\": it is not a regular file")).await;
    }
    // As root only.
    if tools::run(&stage.folder, "mknod", &[device.as_os_str(), "c".as_ref(), "1".as_ref(), "5".as_ref()])
        .is_ok()
    {
        stage.warns("device.wasm\": it is not a regular file").await;
    }
    stage.looks_around().await?;
    drop(socket);
    stage.ends().await
}

async fn names_that_are_no_plugins(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let names: [(&[u8], &str); 6] = [
        (b"new\nline.wasm", "new\\nline.wasm"),
        (b"not-utf8-\xff.wasm", "not-utf8-"),
        (b"a b.wasm", "a b.wasm"),
        (b"-x.wasm", "-x.wasm"),
        (b"UPPER.WASM", "UPPER.WASM"),
        (&[[b'x'; 70].as_slice(), b".wasm"].concat(), "xxxxx"),
    ];
    for (name, _) in &names {
        fs::write(stage.folder.join(OsStr::from_bytes(name)), build(2))?;
    }
    for (_, shown) in &names {
        stage.warns(shown).await;
    }
    stage.looks_around().await?;
    for (name, _) in &names {
        fs::remove_file(stage.folder.join(OsStr::from_bytes(name)))?;
    }
    stage.ends().await
}

async fn names_that_nobody_mentions(run: Run) -> Result<()> {
    let stage = run.start().await?;
    let names = [
        ".hidden.wasm",
        ".subject.wasm.swp",
        "subject.wasm.swp",
        "subject.wasm~",
        "#subject.wasm#",
        "subject.wasm.tmp",
        "subject.wasm.part",
        "subject.wasm.bak",
        "subject.wasm___jb_tmp___",
        ".nfs0000000000000001",
        "subject.wat",
        "README.md",
        "4913",
        "wasm",
        ".wasm",
    ];
    for name in names {
        fs::write(stage.folder.join(name), build(2))?;
    }
    // A lock of Emacs'.
    std::os::unix::fs::symlink("me@here.1234:5", stage.folder.join(".#subject.wasm"))?;
    stage.looks_around().await?;
    stage.ends().await
}

async fn an_empty_file_that_is_new(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    File::create(stage.plugin("empty"))?;
    stage.warns("empty.wasm is refused: the file is empty").await;
    pause(Duration::from_secs(2)).await;
    fs::remove_file(stage.plugin("empty"))?;
    stage.is_gone("empty").await;
    stage.ends().await
}

async fn a_file_that_is_too_large(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let size = 130 << 20;
    let new = stage.beside("large");
    // Sparse: nothing of it is on the disk.
    File::create(&new)?.set_len(size)?;
    fs::rename(new, stage.subject())?;
    stage.refuses(&format!("it has {size} bytes; a plugin has at most 128 MiB")).await;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn a_file_of_another_kind(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::write(stage.subject(), "#!/bin/sh\n")?;
    stage.refuses("").await;
    fs::write(stage.subject(), &build(2)[..8])?;
    stage.refuses("").await;
    fs::write(stage.subject(), build(1))?;
    stage.is_refused_no_more().await;
    stage.ends().await
}

async fn the_subject_replaced_by_a_folder(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::remove_file(stage.subject())?;
    fs::create_dir(stage.subject())?;
    stage.warns("subject.wasm\": it is not a regular file").await;
    stage.stops().await?;
    fs::remove_dir(stage.subject())?;
    fs::write(stage.subject(), build(2))?;
    stage.starts(&build(2)).await;
    stage.ends().await
}
