//! What ends a guest that never returns, with the built binary: the deadline, where there is one, and the budget in any
//! case; set for all plugins, for one, for both or for neither, and in each entry of a plugin. And that those that spin
//! meanwhile hold nobody up: more of them than there are cores leave everything else at work.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use hark_tests::asking::Asking;
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::hostile::guest;
use hark_tests::latency::{Row, table};
use hark_tests::stream::{Stream, config_map, delivered};

/// The entries that a guest may never return from, each with a guest that does not.
const ENTRIES: [(&str, &str); 5] = [
    ("describe", "spin-in-describe"),
    ("start", "initialize-spins"),
    ("on-add", "spin-on-add"),
    ("on-update", "spin-on-update"),
    ("on-delete", "spin-on-delete"),
];

/// `[defaults]` and `[plugins.NAME]`, each with a deadline or with none; the budget; and what then ends a guest that
/// spins. Where the deadline is to be first, the budget is long.
const SETTINGS: [(&str, &str, &str, &str); 4] = [
    ("\"80ms\"", "\"120ms\"", "1h", "used its deadline of 120ms (limits.deadline)"),
    ("\"80ms\"", "\"off\"", "400ms", "used its budget of 400ms for one event (limits.budget)"),
    ("\"off\"", "\"120ms\"", "1h", "used its deadline of 120ms (limits.deadline)"),
    ("\"off\"", "\"off\"", "400ms", "used its budget of 400ms for one event (limits.budget)"),
];

async fn server() -> Result<(Arc<Handle>, tempfile::NamedTempFile)> {
    let server = Arc::new(Server::start(ServerConfig::default()).await?);
    let kubeconfig = tempfile::NamedTempFile::new()?;
    server.write_kubeconfig(kubeconfig.path())?;
    Ok((server, kubeconfig))
}

/// Puts a hostile guest into the folder before the host starts.
fn plant(setup: Setup, plugin: &str, name: &str) -> Result<Setup> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), guest(name)?)?;
    setup.plugin(plugin, file.path())
}

/// The host with one row of the settings, and a guest for each entry.
async fn with(defaults: &str, own: &str, budget: &str, kubeconfig: &Path) -> Result<Hark> {
    let mut config = format!(
        "[defaults.limits]\ndeadline = {defaults}\nbudget = \"{budget}\"\nmax_attempts = 1\nquarantine_after = \"off\"\n"
    );
    for (_, name) in ENTRIES {
        config.push_str(&format!("[plugins.{name}.limits]\ndeadline = {own}\n"));
    }
    let mut setup = Setup::new()?.config(&config)?;
    for (_, name) in ENTRIES {
        setup = plant(setup, name, name)?;
    }
    setup.run(kubeconfig)
}

/// Whether the log says that this ended the guest in this entry.
fn ended(stderr: &str, entry: &str, name: &str, by: &str) -> bool {
    let by = match entry {
        "describe" => by.replace("for one event", "for describe"),
        // For whichever of the two it was started.
        "start" => by.replace(" for one event", ""),
        _ => by.to_owned(),
    };
    let begins = match entry {
        "describe" => format!("{name}.wasm is refused: describe took too long: {by}"),
        "start" => format!(": timeout, attempt 1: while starting an instance: {by}"),
        _ => format!(": timeout, attempt 1: {by}"),
    };
    let event = entry.strip_prefix("on-").unwrap_or("add");
    let whose = if entry == "describe" { String::new() } else { format!("{name}: configmaps {event} ") };
    stderr.lines().any(|line| line.contains(&begins) && line.contains(&whose))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_entry_ends_by_its_deadline_or_its_budget_however_they_are_set() -> Result<()> {
    for (defaults, own, budget, by) in SETTINGS {
        let (server, kubeconfig) = server().await?;
        let hark = with(defaults, own, budget, kubeconfig.path()).await?;
        let stream = Stream::start(server, "object".to_owned(), Duration::from_millis(20));
        for (entry, name) in ENTRIES {
            eventually(
                &format!("{entry} to end with defaults {defaults}, own {own}: {by}"),
                || hark.state(),
                async || ended(&hark.stderr(), entry, name, by).then_some(()),
            )
            .await;
        }
        stream.stop().await?;
        let other = if by.contains("deadline") { "(limits.budget)" } else { "(limits.deadline)" };
        ensure!(!hark.stderr().contains(other), "something else ended one of them: {}", hark.state());
    }
    Ok(())
}

/// Spinning plugins: twice the cores that most machines for tests have.
const SPINNING: usize = 4;
/// Changes that the good plugin is told of, alone and beside them.
const CHANGES: usize = 300;

/// A stream of changes, all of which the good plugin is told of while the admin port is asked for everything.
async fn measured(hark: &Hark, server: &Arc<Handle>, name: &str) -> Result<Row> {
    let admin = hark.admin().await;
    let (stream, asking) =
        (Stream::start(server.clone(), name.to_owned(), Duration::from_millis(5)), Asking::start(admin));
    eventually("changes", || hark.state(), async || (stream.made() >= CHANGES).then_some(())).await;
    let changes = stream.stop().await?;
    let mut took = Vec::new();
    hark.traces("every change at the good plugin", |trace| {
        let lines: Vec<_> = trace.iter().filter(|line| line.plugin == "good").cloned().collect();
        let all = delivered(&lines, &changes).expect("a sound trace");
        let whole = all.is_some();
        took = all.unwrap_or_default();
        whole
    })
    .await;
    Ok(Row::new(name, "-", took, asking.stop().await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn more_spinning_plugins_than_cores_hold_nobody_up() -> Result<()> {
    let (server, kubeconfig) = server().await?;
    let hark = Setup::new()?
        .config("[defaults.limits]\ndeadline = \"10m\"\nbudget = \"1h\"\n")?
        .plugin("good", &fixture("counter-v1"))?
        .run(kubeconfig.path())?;
    hark.says(&["good started"]).await;
    let alone = measured(&hark, &server, "alone").await?;
    let names: BTreeSet<String> = (0..SPINNING).map(|number| format!("spin-{number}")).collect();
    for name in &names {
        hark.save(name, &fixture("spin"))?;
    }
    server.create(config_map("first", "x"))?;
    eventually(
        "all of them to spin",
        || hark.state(),
        async || {
            let told = hark.stderr();
            let spins = |name: &String| told.lines().any(|line| line.contains(&format!("plugin=\"{name}\"")));
            names.iter().all(spins).then_some(())
        },
    )
    .await;
    let beside = measured(&hark, &server, "beside-four-that-spin").await?;
    let trace = hark.trace();
    ensure!(!trace.iter().any(|line| names.contains(&line.plugin)), "they were to spin all the time");
    let table = table(&[alone, beside]);
    eprintln!("{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/spinning-latency.txt");
    std::fs::write(&path, table).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Plugins whose `describe` hangs: many more than versions are compiled at a time.
const HANGING: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_hang_while_they_describe_themselves_hold_no_other_one_up() -> Result<()> {
    let (server, kubeconfig) = server().await?;
    let mut setup = Setup::new()?.config("[defaults.limits]\ndeadline = \"off\"\nbudget = \"1h\"\n")?;
    for number in 0..HANGING {
        setup = plant(setup, &format!("a{number:02}"), "spin-in-describe")?;
    }
    // Looked at after all of them.
    let hark = setup.plugin("good", &fixture("counter-v1"))?.run(kubeconfig.path())?;
    hark.says(&["good started"]).await;
    server.create(config_map("first", "x"))?;
    hark.traces("an event at the good plugin", |trace| trace.iter().any(|line| line.plugin == "good")).await;
    hark.save("good", &fixture("counter-v2"))?;
    hark.says(&["good reloaded"]).await;
    ensure!(!hark.stderr().contains("is refused"), "all of them hang still: {}", hark.state());
    Ok(())
}
