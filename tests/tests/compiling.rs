//! Compiling as a user sees it: what was compiled before is there at once, and a large plugin on its way disturbs nobody.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::measure::stamp::stamped;
use hark_tests::prometheus::Scrape;
use hark_tests::reload::line::Parts;
use hark_tests::{eventually, http, large};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde_json::Value;
use tempfile::TempDir;

/// Wasm whose compilation takes seconds.
const LARGE: usize = 10 << 20;

async fn cluster() -> Result<Cluster> {
    Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")
}

/// Waits until a plugin has been told of an object.
async fn told(hark: &Hark, plugin: &str, key: &str) {
    let what = format!("{plugin} to be told of {key}");
    hark.traces(&what, |trace| trace.iter().any(|line| line.plugin == plugin && line.key == key)).await;
}

/// A host that keeps its artefacts in a folder.
fn with_cache(folder: &TempDir) -> Result<Setup> {
    let path = folder.path().join("artefacts");
    Setup::new()?.config(&format!("[host]\ncache_dir = {:?}\n", path.display().to_string()))
}

/// A field of a plugin's running version in `/api/plugins`.
async fn running(hark: &Hark, plugin: &str, field: &str) -> Result<Value> {
    let answer = http::get(hark.admin().await, "/api/plugins").await?;
    let document: Value = serde_json::from_str(&answer.body)?;
    let plugins = document["plugins"].as_array().context("plugins")?;
    let plugin = plugins.iter().find(|one| one["plugin"] == plugin).context("the plugin")?;
    Ok(plugin["running"][field].clone())
}

async fn metric(hark: &Hark, name: &str, labels: &[(&str, &str)]) -> Result<Option<f64>> {
    let answer = http::get(hark.admin().await, "/metrics").await?;
    Ok(Scrape::parse(&answer.body)?.get(name, labels))
}

/// The processes that a host compiles in.
fn compilers(hark: &Hark) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", hark.pid()));
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    children.flat_map(|all| all.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

async fn compiler(hark: &Hark) -> u32 {
    eventually("a process that compiles", || hark.state(), async || compilers(hark).first().copied()).await
}

/// Whether a process is there and has not ended.
fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The signal that ended an orphan, once it has ended.
async fn ending(hark: &Hark, process: u32) -> Option<i32> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let ask = async || waitpid(process, WaitOptions::NOHANG).ok().flatten();
    let (_, status) = eventually("the end of an orphan", || hark.state(), ask).await;
    status.terminating_signal()
}

async fn ends(hark: &Hark, process: u32) {
    eventually("the end of the process", || hark.state(), async || (!lives(process)).then_some(())).await;
}

/// What a process may claim: its niceness, how readily it is killed when memory runs out, and its process group.
fn standing(process: u32) -> Result<[String; 3]> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, stat) = stat.rsplit_once(") ").context("a name in parentheses")?;
    let field = |number: usize| stat.split(' ').nth(number - 3).map(str::to_owned).context("a field");
    let readiness = fs::read_to_string(format!("/proc/{process}/oom_score_adj"))?.trim().to_owned();
    Ok([field(19)?, readiness, field(5)?])
}

fn signal(process: u32, name: &str) -> Result<()> {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status()?;
    ensure!(sent.success(), "kill -{name} failed");
    Ok(())
}

/// The counter with megabytes more in it, as a file.
fn large(folder: &Path, bytes: usize) -> Result<PathBuf> {
    let file = folder.join("large.wasm");
    fs::write(&file, large::grown(&fixture("counter-v2"), bytes, 7)?)?;
    Ok(file)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_finds_what_the_first_one_compiled_unless_it_is_damaged() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let start = || with_cache(&folder)?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig());
    let first = start()?;
    first.says(&["counter started: ", ", compile "]).await;
    assert!(!first.stderr().contains("(cached)"), "{}", first.stderr());
    assert_eq!(running(&first, "counter", "compiled").await?, "optimized", "as is usual for `hark run`");
    assert_eq!(running(&first, "counter", "cached").await?, false);
    let second = start()?;
    second.says(&["counter started: ", " (cached), link "]).await;
    assert_eq!(running(&second, "counter", "cached").await?, true);
    let total = async |hark: &Hark, result| {
        metric(hark, "hark_compile_total", &[("mode", "optimized"), ("result", result)]).await
    };
    assert_eq!((total(&second, "cached").await?, total(&second, "compiled").await?), (Some(1.0), Some(0.0)));
    assert_eq!(metric(&second, "hark_artefact_cache_entries", &[]).await?, Some(1.0));
    cluster.create("a", "x").await?;
    told(&second, "counter", "default/a").await;
    drop((first, second));
    let entry = fs::read_dir(folder.path().join("artefacts"))?.next().context("an entry")??.path();
    let mut bytes = fs::read(&entry)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&entry, &bytes)?;
    let third = start()?;
    third.says(&["is dropped, and compiled anew: its checksum is wrong", "counter started: "]).await;
    told(&third, "counter", "default/a").await;
    assert_eq!(running(&third, "counter", "cached").await?, false);
    let dropped = [("reason", "damaged")];
    assert_eq!(metric(&third, "hark_artefact_cache_dropped_total", &dropped).await?, Some(1.0));
    start()?.says(&["counter started: ", " (cached), link "]).await;
    Ok(())
}

/// The lines of a log with this text.
fn lines(hark: &Hark, text: &str) -> Vec<String> {
    hark.stderr().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_whose_folder_goes_away_is_made_again_and_one_that_cannot_be_is_said_once() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    cluster.create("a", "x").await?;
    let (build, cache) = (fs::read(fixture("counter-v2"))?, folder.path().join("artefacts"));
    let hark = with_cache(&folder)?.content("counter", &build)?.run(cluster.kubeconfig())?;
    told(&hark, "counter", "default/a").await;
    let save = async |generation: u64| {
        fs::write(hark.plugin_path("counter"), stamped(&build, generation))?;
        hark.traces("the version", |trace| trace.iter().any(|line| line.generation == generation)).await;
        anyhow::Ok(())
    };
    fs::remove_dir_all(&cache)?;
    save(2).await?;
    ensure!(fs::read_dir(&cache)?.next().is_some(), "it is kept: {}", hark.stderr());
    assert_eq!(fs::metadata(&cache)?.permissions().mode() & 0o777, 0o700);
    ensure!(lines(&hark, "WARN").is_empty(), "{}", hark.stderr());
    fs::remove_dir_all(&cache)?;
    fs::write(&cache, "a file")?;
    save(3).await?;
    save(4).await?;
    let said = format!(
        "cannot write to the artefact cache in {}, so what is compiled is not remembered: \
         File exists (os error 17); make it a folder that this user can write to, or set host.cache_dir",
        cache.display()
    );
    ensure!(matches!(&lines(&hark, "WARN")[..], [one] if one.ends_with(&said)), "{}", hark.stderr());
    fs::remove_file(&cache)?;
    save(5).await?;
    save(6).await?;
    let again = format!("what is compiled is remembered again, in {}", cache.display());
    ensure!(matches!(&lines(&hark, "again")[..], [one] if one.ends_with(&again)), "{}", hark.stderr());
    assert_eq!(lines(&hark, "WARN").len(), 1, "{}", hark.stderr());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_version_are_the_whole_also_where_its_file_was_left_open() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    cluster.create("a", "x").await?;
    let hark = with_cache(&folder)?.run(cluster.kubeconfig())?;
    hark.says(&["admin port ready"]).await;
    let build = fs::read(fixture("counter-v2"))?;
    let mut open = fs::File::create(hark.plugin_path("counter"))?;
    open.write_all(&build)?;
    told(&hark, "counter", "default/a").await;
    hark.save("counter", &fixture("counter-v1"))?;
    hark.says(&["counter reloaded: "]).await;
    let log = hark.stderr();
    let found = |of: fn(&str, &str) -> Result<Option<Parts>>| {
        let line = log.lines().find_map(|line| of(line, "counter").transpose());
        line.context("no line").flatten()
    };
    for parts in [found(Parts::of_start)?, found(Parts::of)?] {
        // Each number is rounded, the whole too.
        ensure!(parts.gap() <= parts.parts.len() as f64 + 1.0, "{parts:?}\n{log}");
        ensure!(parts.parts.len() == 6, "{parts:?}\n{log}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_way_of_compiling_is_another_version() -> Result<()> {
    let cluster = cluster().await?;
    let hark = Setup::new()?
        .config("[plugins.counter]\ncompile = \"fast\"\n")?
        .plugin("counter", &fixture("counter-v1"))?
        .run(cluster.kubeconfig())?;
    hark.says(&["counter started: "]).await;
    assert_eq!(running(&hark, "counter", "compiled").await?, "fast");
    fs::write(hark.folder().join("hark.toml"), "[defaults]\ncompile = \"optimized\"\n")?;
    hark.says(&["counter reloaded: ", ", new configuration ("]).await;
    assert_eq!(running(&hark, "counter", "compiled").await?, "optimized");
    assert_eq!(running(&hark, "counter", "generation").await?, 2);
    cluster.create("a", "x").await?;
    told(&hark, "counter", "default/a").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_plugin_that_is_being_compiled_holds_nobody_up() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let file = large(folder.path(), LARGE)?;
    let hark = with_cache(&folder)?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    hark.says(&["counter started: "]).await;
    hark.save("large", &file)?;
    let compiler = compiler(&hark).await;
    for number in 0..20 {
        let name = format!("during-{number}");
        cluster.create(&name, "x").await?;
        told(&hark, "counter", &format!("default/{name}")).await;
        assert_eq!(http::get(hark.admin().await, "/livez").await?.status, 200);
    }
    assert_eq!(standing(compiler)?, ["10", "1000", &compiler.to_string()]);
    assert!(
        lives(compiler) && running(&hark, "large", "compiled").await?.is_null(),
        "all that was meanwhile"
    );
    hark.says(&["large started: "]).await;
    told(&hark, "large", "default/during-0").await;
    assert!(!lives(compiler));
    let again = with_cache(&folder)?.plugin("large", &file)?.run(cluster.kubeconfig())?;
    again.says(&["large started: ", " (cached), link "]).await;
    told(&again, "large", "default/during-0").await;
    assert_eq!(compilers(&again), [0; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_are_small_or_known_wait_for_no_large_one() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let known = large(folder.path(), 600 << 10)?;
    with_cache(&folder)?.plugin("known", &known)?.run(cluster.kubeconfig())?.says(&["known started: "]).await;
    let hark = with_cache(&folder)?.run(cluster.kubeconfig())?;
    for seed in 1..=3 {
        let bytes = large::grown(&fixture("counter-v2"), LARGE, seed)?;
        fs::write(hark.plugin_path(&format!("large-{seed}")), bytes)?;
    }
    let two = async || <[u32; 2]>::try_from(compilers(&hark)).ok();
    let two = eventually("two processes that compile", || hark.state(), two).await;
    hark.save("known", &known)?;
    hark.save("small", &fixture("counter-v1"))?;
    hark.says(&["known started: ", " (cached), link ", "small started: "]).await;
    assert_eq!(compilers(&hark), two, "and no third one");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_that_is_killed_is_the_trouble_of_its_file_alone() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let hark = with_cache(&folder)?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    hark.says(&["counter started: "]).await;
    hark.save("counter", &large(folder.path(), LARGE / 3)?)?;
    signal(compiler(&hark).await, "KILL")?;
    hark.says(&[
        "counter.wasm is refused: the process that compiled it broke: it was killed (signal 9)",
        "; save the file again, or touch it, to have it tried again",
        "goes on",
    ])
    .await;
    cluster.create("a", "x").await?;
    told(&hark, "counter", "default/a").await;
    let failed = [("mode", "optimized"), ("result", "failed")];
    assert_eq!(metric(&hark, "hark_compile_total", &failed).await?, Some(1.0));
    let entries = fs::read_dir(folder.path().join("artefacts"))?.count();
    assert_eq!(entries, 1, "nothing is left of it");
    // The same bytes, saved once more: it was not their fault.
    let again = fs::read(hark.plugin_path("counter"))?;
    fs::write(hark.plugin_path("counter"), again)?;
    hark.says(&["counter reloaded: "]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_ends_with_its_file_and_with_its_host() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let file = large(folder.path(), LARGE)?;
    let hark = with_cache(&folder)?.plugin("counter", &file)?.run(cluster.kubeconfig())?;
    let first = compiler(&hark).await;
    hark.save("counter", &fixture("counter-v1"))?;
    hark.says(&["counter started: counter 1"]).await;
    ends(&hark, first).await;
    assert!(!hark.stderr().contains("refused"), "{}", hark.stderr());
    hark.save("counter", &file)?;
    let second = compiler(&hark).await;
    // Whoever has lost its parent becomes a child of this process, which then learns how it ended.
    rustix::process::set_child_subreaper(Pid::from_raw(1))?;
    signal(hark.pid(), "KILL")?;
    assert_eq!(ending(&hark, second).await, Some(9), "it was killed, rather than done");
    Ok(())
}

/// The entries of a cache that hold functions.
fn packs(folder: &TempDir) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder.path().join("artefacts"))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.display().to_string().contains("-functions-")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_kept_for_the_next_version_and_a_damaged_pack_harms_nobody() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    cluster.create("a", "x").await?;
    let build = large::grown(&fixture("counter-v2"), 200 << 10, 7)?;
    let setup = with_cache(&folder)?.content("counter", &build)?;
    let hark = setup.run(cluster.kubeconfig())?;
    told(&hark, "counter", "default/a").await;
    let [pack] = <[PathBuf; 1]>::try_from(packs(&folder)?).ok().context("one pack")?;
    let generation = async |number: u64| {
        hark.traces("the new version", |trace| trace.iter().any(|line| line.generation == number)).await;
    };
    let first = fs::read(&pack)?;
    fs::write(hark.plugin_path("counter"), stamped(&build, 1))?;
    generation(2).await;
    let mut second = fs::read(&pack)?;
    assert_eq!(first.len(), second.len(), "the same functions, and no other ones");
    let middle = second.len() / 2;
    second[middle] ^= 1;
    fs::write(&pack, second)?;
    fs::write(hark.plugin_path("counter"), stamped(&build, 2))?;
    generation(3).await;
    hark.says(&["-functions-", " is dropped, and compiled anew: its checksum is wrong"]).await;
    let dropped = [("reason", "damaged")];
    assert_eq!(metric(&hark, "hark_artefact_cache_dropped_total", &dropped).await?, Some(1.0));
    assert_eq!(fs::read(&pack)?.len(), first.len(), "it was made anew");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_compiler_has_all_of_the_machine() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let setup = with_cache(&folder)?.arguments(&["--listen", "127.0.0.1:0"]);
    let hark = setup.plugin("large", &large(folder.path(), LARGE)?)?.start(&["dev"])?;
    let compiler = compiler(&hark).await;
    let [niceness, ..] = standing(compiler)?;
    assert_eq!(niceness, standing(std::process::id())?[0], "no less than whoever started it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn compiling_that_takes_too_long_is_ended_and_said() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    let hark = Setup::new()?
        .config("[host]\ncompile_timeout = \"50ms\"\n")?
        .plugin("large", &large(folder.path(), LARGE)?)?
        .run(cluster.kubeconfig())?;
    hark.says(&["large.wasm is refused: compiling it took more than 0.05 s (host.compile_timeout)"]).await;
    assert_eq!(compilers(&hark), [0; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cache_plugins_run_all_the_same_and_the_log_says_what_to_do() -> Result<()> {
    let (cluster, folder) = (cluster().await?, tempfile::tempdir()?);
    cluster.create("a", "x").await?;
    let file = large(folder.path(), 600 << 10)?;
    let shared = folder.path().join("shared");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777))?;
    let warning = "plugins are compiled at each start: ";
    for (cache_dir, says) in [
        ("off".to_owned(), ""),
        (shared.display().to_string(), "chmod 700 it"),
        ("/proc/none".to_owned(), "host.cache_dir"),
    ] {
        let hark = Setup::new()?
            .config(&format!("[host]\ncache_dir = {cache_dir:?}\n"))?
            .plugin("large", &file)?
            .run(cluster.kubeconfig())?;
        hark.says(&["large started: ", says]).await;
        told(&hark, "large", "default/a").await;
        assert_eq!(hark.stderr().contains(warning), !says.is_empty(), "{}", hark.stderr());
        assert_eq!(metric(&hark, "hark_artefact_cache_entries", &[]).await?, None);
    }
    assert_eq!(fs::read_dir(&shared)?.count(), 0);
    Ok(())
}
