//! Files of a mounted ConfigMap or Secret: links to links, changed all at once by one rename, as the kubelet does it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use hark_tests::ways::Run;
use hark_tests::ways::build::build;
use hark_tests::ways::stage::Start;

hark_tests::ways! {
    plugins_mounted_from_a_config_map
    a_config_map_that_gets_a_key_and_loses_it
    a_config_map_with_the_same_content
    a_configuration_mounted_from_a_config_map
}

type Data<'a> = &'a [(&'a str, &'a [u8])];

/// Writes a volume's files as the kubelet does, the first time or a later one: a folder for the new content, `..data`
/// renamed over to lead there, links for names that are new, none for those that are gone, the old folder deleted.
fn publish(volume: &Path, version: u32, data: Data<'_>) -> Result<()> {
    let old = fs::read_link(volume.join("..data"));
    let name = format!("..2026_11_30_05_00_00.{version}");
    fs::create_dir(volume.join(&name))?;
    for (key, content) in data {
        fs::write(volume.join(&name).join(key), content)?;
    }
    symlink(&name, volume.join("..data_tmp"))?;
    fs::rename(volume.join("..data_tmp"), volume.join("..data"))?;
    for (key, _) in data.iter().filter(|(key, _)| !volume.join(key).is_symlink()) {
        symlink(Path::new("..data").join(key), volume.join(key))?;
    }
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        if !entry.path().exists() && entry.path().is_symlink() {
            fs::remove_file(entry.path())?;
        }
    }
    if let Ok(old) = old {
        fs::remove_dir_all(volume.join(old))?;
    }
    Ok(())
}

async fn plugins_mounted_from_a_config_map(run: Run) -> Result<()> {
    let neighbour = build(1);
    let content = |number| [("subject.wasm", build(number)), ("neighbour.wasm", neighbour.clone())];
    let publish = |volume: &Path, number| {
        let content = content(number);
        let data: Vec<(&str, &[u8])> = content.iter().map(|(key, bytes)| (*key, bytes.as_slice())).collect();
        publish(volume, number, &data)
    };
    let lay = |at: &Path| publish(&at.join("plugins"), 1);
    let mut stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    for number in [2, 3, 4] {
        publish(&stage.folder, number)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn a_config_map_that_gets_a_key_and_loses_it(run: Run) -> Result<()> {
    let one = build(1);
    let two: Data<'_> = &[("subject.wasm", &one), ("neighbour.wasm", &one)];
    let three = [two, &[("third.wasm", &one)]].concat();
    let lay = |at: &Path| publish(&at.join("plugins"), 1, two);
    let stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    publish(&stage.folder, 2, &three)?;
    stage.runs("third", &one, 1).await;
    publish(&stage.folder, 3, two)?;
    stage.is_gone("third").await;
    publish(&stage.folder, 4, &three)?;
    stage.runs("third", &one, 1).await;
    stage.ends().await
}

async fn a_config_map_with_the_same_content(run: Run) -> Result<()> {
    let one = build(1);
    let data: Data<'_> = &[("subject.wasm", &one), ("neighbour.wasm", &one)];
    let lay = |at: &Path| publish(&at.join("plugins"), 1, data);
    let stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    for version in [2, 3, 4] {
        publish(&stage.folder, version, data)?;
        stage.flows().await;
    }
    stage.ends().await
}

async fn a_configuration_mounted_from_a_config_map(run: Run) -> Result<()> {
    let config = |text: &str| run.config(&format!("[plugins.subject.settings]\ntext = \"{text}\"\n"));
    let lay = |at: &Path| {
        hark_tests::ways::stage::lay(&at.join("plugins"))?;
        fs::create_dir(at.join("etc"))?;
        publish(&at.join("etc"), 1, &[("hark.toml", config("first").as_bytes())])
    };
    let start = Start { lay: &lay, arguments: &["--config", "etc/hark.toml"], ..Start::default() };
    let mut stage = run.start_with(start).await?;
    for (version, text) in [(2, "second"), (3, "third"), (4, "fourth")] {
        publish(&stage.beside("etc"), version, &[("hark.toml", config(text).as_bytes())])?;
        stage.is_configured_anew().await;
        // The same again, as when another key of the map changes.
        publish(&stage.beside("etc"), version * 10, &[("hark.toml", config(text).as_bytes())])?;
        stage.flows().await;
    }
    stage.ends().await
}
