//! Hark seen from outside: the admin port of the real binary, in good times and bad, and under rude clients.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Failure, Handle, Server};
use hark_tests::guests::{fixture, plugin};
use hark_tests::hark::{Hark, Setup, binary, clean};
use hark_tests::http::{Answer, get, read, send};
use hark_tests::prometheus::Scrape;
use hark_tests::{LIMIT, eventually};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// `hark run` on an embedded API server that does what a test wants.
struct Seen {
    server: Handle,
    hark: Hark,
    admin: SocketAddr,
}

impl Seen {
    async fn start(setup: Setup, prepare: impl AsyncFnOnce(&Handle)) -> Result<Self> {
        let server = Server::start(ServerConfig::default()).await?;
        prepare(&server).await;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        server.write_kubeconfig(kubeconfig.path())?;
        let hark = setup.run(kubeconfig.path())?;
        let admin = hark.admin().await;
        Ok(Self { server, hark, admin })
    }

    async fn get(&self, path: &str) -> Answer {
        get(self.admin, path).await.expect("an answer")
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// The metrics; every scrape of these tests is held against the strict reader.
    async fn scrape(&self) -> Scrape {
        let answer = self.get("/metrics").await;
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        Scrape::parse(&answer.body).unwrap_or_else(|error| panic!("{error:#}\n{}", answer.body))
    }

    /// Waits until `/readyz` answers so, with a line that begins with `line` (of the verbose form).
    async fn ready(&self, status: u16, line: &str) -> String {
        let mut last = String::new();
        eventually(
            &format!("/readyz to be {status} with {line:?}"),
            || self.hark.state(),
            async || {
                let answer = self.get("/readyz?verbose").await;
                last.clone_from(&answer.body);
                let has = answer.body.lines().any(|found| found.starts_with(line));
                (answer.status == status && has).then_some(())
            },
        )
        .await;
        last
    }

    /// Waits until the metrics satisfy a condition.
    async fn metrics(&self, what: &str, condition: impl Fn(&Scrape) -> bool) -> Scrape {
        eventually(
            what,
            || self.hark.state(),
            async || {
                let scrape = self.scrape().await;
                condition(&scrape).then_some(scrape)
            },
        )
        .await
    }
}

fn config_map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text},
        "metadata": {"name": name, "namespace": "default"},
    })
}

fn event_log(kinds: &str) -> Result<Setup> {
    let config = format!("[plugins.event-log.settings]\nkinds = [{kinds}]\n");
    Setup::new()?.config(&config)?.plugin("event-log", &plugin("event-log"))
}

const SECRETS: &[(&str, &str)] = &[("resource", "v1/Secret")];

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_resource_shows_with_its_reason_holds_nothing_back_and_heals() -> Result<()> {
    let seen = Seen::start(event_log("\"v1/ConfigMap\", \"v1/Secret\"")?, async |server| {
        let failure = Failure::status(403, "secrets is forbidden: \"no\\way\"");
        server.faults().fail_next(usize::MAX, |request| request.resource == "secrets", failure);
    })
    .await?;
    let readiness = seen.ready(200, "[-]informer v1/Secret forbidden: ").await;
    ensure!(readiness.contains("secrets is forbidden: \"no\\way\" (403 Forbidden) since 2"), "{readiness}");
    ensure!(readiness.ends_with("readyz check passed\n"), "{readiness}");
    seen.ready(200, "[+]informer v1/ConfigMap ok").await;
    assert_eq!(seen.get("/readyz").await.body, "ok");

    let scrape = seen.scrape().await;
    let forbidden = [("resource", "v1/Secret"), ("reason", "forbidden")];
    assert_eq!(scrape.get("hark_informer_problem", &forbidden), Some(1.0));
    assert_eq!(scrape.get("hark_informer_synced", SECRETS), Some(0.0));
    assert!(scrape.get("hark_informer_failures_total", SECRETS) >= Some(1.0));
    let informers = seen.json("/api/informers").await;
    let secret = &informers["informers"][1];
    assert_eq!((&secret["kind"], &secret["synced"]), (&json!("Secret"), &json!(false)));
    assert_eq!(secret["problem"]["kind"], "forbidden");
    assert_eq!(secret["problem"]["holds_others_back"], false);

    seen.server.faults().clear();
    seen.ready(200, "[+]informer v1/Secret ok").await;
    let scrape = seen.scrape().await;
    assert_eq!(scrape.sum("hark_informer_problem", &[]), None, "it is gone, not 0");
    assert_eq!(scrape.get("hark_informer_synced", SECRETS), Some(1.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_whose_definition_is_not_there_yet_is_absent_until_it_is() -> Result<()> {
    let seen = Seen::start(event_log("\"example.com/v1/Widget\"")?, async |_| {}).await?;
    seen.ready(200, "[-]informer example.com/v1/Widget absent: ").await;
    seen.server.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }))?;
    seen.ready(200, "[+]informer example.com/v1/Widget ok").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_the_first_list_is_silent() -> Result<()> {
    let seen = Seen::start(event_log("\"v1/ConfigMap\", \"v1/Secret\"")?, async |server| {
        server.faults().hold(|request| request.resource == "secrets");
    })
    .await?;
    seen.ready(503, "[-]informer v1/Secret silent: ").await;
    seen.ready(503, "[+]informer v1/ConfigMap ok").await;
    // The plugin's thread joins its informers when it gets to it.
    let plugin = eventually(
        "the plugin to join",
        || seen.hark.state(),
        async || {
            let plugin = seen.json("/api/plugins").await["plugins"][0].take();
            let joined = plugin["running"]["subscriptions"][1]["informers"] == json!(["v1/Secret"]);
            joined.then_some(plugin)
        },
    )
    .await;
    assert_eq!(plugin["queue"]["open"], false, "a healthy subscription is waited for");
    assert_eq!(seen.get("/livez").await.body, "ok");
    seen.server.faults().release();
    seen.ready(200, "[+]informer v1/Secret ok").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_is_not_ready_until_the_api_server_is_reached_and_a_version_of_each_plugin_runs()
-> Result<()> {
    let setup = Setup::new()?.plugin("counter", &fixture("counter-v1"))?;
    let seen = Seen::start(setup, async |server| server.faults().refuse_connections().await).await?;
    seen.ready(503, "[-]informer v1/ConfigMap unreachable: ").await;
    assert_eq!(seen.get("/livez?verbose").await.body, "[+]manager ok\nlivez check passed\n");
    ensure!(seen.server.faults().accept_connections().await, "the port is gone");
    seen.ready(200, "[+]plugin counter running sha256:").await;

    fs::write(seen.hark.plugin_path("bad"), "this is not wasm")?;
    let bad = seen.ready(503, "[-]plugin bad does not run: refused: ").await;
    ensure!(bad.ends_with("readyz check failed\n"), "{bad}");
    let scrape = seen.scrape().await;
    let of = |metric: &str, plugin| scrape.get(metric, &[("plugin", plugin)]);
    assert_eq!((of("hark_plugin_running", "bad"), of("hark_plugin_refused", "bad")), (Some(0.0), Some(1.0)));
    assert_eq!((of("hark_plugin_running", "counter"), of("hark_listener_pending", "bad")), (Some(1.0), None));
    fs::remove_file(seen.hark.plugin_path("bad"))?;
    seen.ready(200, "[+]folder plugins ok").await;

    fs::write(seen.hark.plugin_path("counter"), "nor is this")?;
    seen.ready(200, "[-]plugin counter running sha256:").await;
    let plugins = seen.json("/api/plugins").await;
    let counter = &plugins["plugins"][0];
    assert_eq!((&counter["plugin"], &counter["running"]["generation"]), (&json!("counter"), &json!(1)));
    ensure!(
        counter["refused"]["message"].as_str().is_some_and(|text| text.contains("plain text")),
        "{counter}"
    );
    seen.hark.save("counter", &fixture("counter-v2"))?;
    seen.ready(200, "[+]plugin counter running sha256:").await;
    let scrape = seen.scrape().await;
    assert_eq!(scrape.get("hark_plugin_versions_total", &[("plugin", "counter")]), Some(2.0));
    assert_eq!(scrape.get("hark_plugin_info", &[("plugin", "counter"), ("version", "2")]), Some(1.0));

    let (here, away) = (seen.hark.folder().join("plugins"), seen.hark.folder().join("away"));
    fs::rename(&here, &away)?;
    seen.ready(503, "[-]folder plugins cannot be read, what runs goes on: ").await;
    fs::rename(&away, &here)?;
    seen.ready(200, "[+]folder plugins ok").await;
    fs::write(seen.hark.folder().join("hark.toml"), "[host]\ncolour = 1\n")?;
    let broken = seen.ready(200, "[-]configuration failed: what was configured before stays: ").await;
    ensure!(broken.contains("host.colour: unknown key"), "{broken}");
    assert_eq!(seen.scrape().await.get("hark_config_valid", &[]), Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_move_by_what_happened() -> Result<()> {
    let setup = Setup::new()?.plugin("counter", &fixture("counter-v1"))?;
    let seen = Seen::start(setup, async |server| {
        server.create(config_map("first", "x")).expect("created");
    })
    .await?;
    let maps = [("resource", "v1/ConfigMap"), ("namespace", ""), ("selector", "")];
    let before = seen
        .metrics("the first object to be handled", |scrape| {
            scrape.get("hark_listener_synced", &[("plugin", "counter")]) == Some(1.0)
                && scrape.get("hark_informer_watches_total", &maps) >= Some(1.0)
        })
        .await;
    let plugin = [("plugin", "counter")];
    let ok = [("plugin", "counter"), ("outcome", "ok")];
    let objects = before.get("hark_informer_objects", &maps).context("objects")?;
    assert_eq!(before.get("hark_listener_deliveries_total", &ok), Some(objects), "one initial add each");
    assert_eq!(before.sum("hark_informer_events_total", &maps), Some(0.0));
    assert_eq!(
        before.get("hark_informer_last_event_timestamp_seconds", &maps),
        None,
        "never, rather than 1970"
    );
    assert_eq!(before.get("hark_informer_lists_begun_total", &[maps[0], ("reason", "start")]), Some(1.0));
    assert_eq!(before.sum("hark_informer_lists_begun_total", &maps), Some(1.0));
    assert_eq!(before.sum("hark_informer_lists_total", &[maps[0], ("outcome", "ok")]), Some(1.0));
    assert_eq!(before.sum("hark_informer_list_duration_seconds_count", &maps), Some(1.0));

    for name in ["a", "b", "c"] {
        seen.server.create(config_map(name, "one"))?;
    }
    for text in ["two", "three"] {
        seen.server.update(config_map("a", text))?;
    }
    seen.server.delete(&config_map("b", "one"))?;
    let deliveries = before.get("hark_listener_deliveries_total", &ok).map(|count| count + 6.0);
    let after = seen
        .metrics("six events to be handled", |scrape| {
            scrape.get("hark_listener_deliveries_total", &ok) == deliveries
        })
        .await;
    let events = |kind| after.get("hark_informer_events_total", &[maps[0], ("type", kind)]);
    assert_eq!([events("added"), events("modified"), events("deleted")], [Some(3.0), Some(2.0), Some(1.0)]);
    assert_eq!(after.get("hark_informer_objects", &maps), Some(objects + 2.0));
    let bytes = |scrape: &Scrape| scrape.get("hark_informer_object_bytes", &maps).expect("bytes");
    assert!(bytes(&after) > bytes(&before));
    let version = after.get("hark_informer_resource_version", &maps);
    assert_eq!(version, Some(seen.server.revision() as f64));
    assert!(after.get("hark_informer_last_event_timestamp_seconds", &maps) > Some(1.7e9));
    for histogram in ["hark_listener_handling_seconds_count", "hark_listener_delivery_lag_seconds_count"] {
        assert_eq!(after.get(histogram, &plugin), deliveries, "{histogram}: no delivery was a retry");
    }
    for idle in
        ["pending", "in_flight", "retrying", "oldest_waiting_seconds", "merged_total", "retried_total"]
    {
        assert_eq!(after.get(&format!("hark_listener_{idle}"), &plugin), Some(0.0), "{idle}");
    }
    assert_eq!(after.len(), before.len() + 1, "objects add no series; the time of the last event is new");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn relists_are_counted_by_reason_and_watches_as_they_are_opened() -> Result<()> {
    let seen = Seen::start(Setup::new()?.plugin("counter", &fixture("counter-v1"))?, async |_| {}).await?;
    let maps = [("resource", "v1/ConfigMap")];
    seen.server.faults().watched(1).await;
    // A watch without an event would count as a very short one.
    seen.server.create(config_map("seen", "x"))?;
    let before = seen
        .metrics("the event", |scrape| scrape.sum("hark_informer_events_total", &maps) == Some(1.0))
        .await;
    assert_eq!(before.get("hark_informer_watches_total", &maps), Some(1.0));
    // History goes on without the one who watches, and is forgotten.
    let faults = seen.server.faults();
    faults.lose_events(true);
    seen.server.create(config_map("unseen", "x"))?;
    faults.compact();
    faults.lose_events(false);
    faults.cut_watches();
    let objects = seen.server.list("v1", "ConfigMap")?.len();
    let expired = [maps[0], ("reason", "expired")];
    let after = seen
        .metrics("a relist", |scrape| {
            scrape.get("hark_informer_lists_begun_total", &expired) == Some(1.0)
                && scrape.get("hark_informer_objects", &maps) == Some(objects as f64)
        })
        .await;
    assert_eq!(after.sum("hark_informer_lists_begun_total", &maps), Some(2.0), "the first and one relist");
    assert_eq!(
        after.sum("hark_informer_events_total", &maps),
        Some(1.0),
        "what a list told is no watch event"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_breaks_is_counted_until_the_event_is_given_up() -> Result<()> {
    let setup = Setup::new()?
        .config("[defaults.limits]\nmax_attempts = 2\n")?
        .plugin("poison", &fixture("trap-on-poison"))?
        .plugin("again", &fixture("retry-twice"))?
        .plugin("never", &fixture("permanent"))?;
    let seen = Seen::start(setup, async |_| {}).await?;
    seen.ready(200, "[+]informer v1/ConfigMap ok").await;
    let start = seen.metrics("the objects that there are to be handled", |scrape| {
        scrape.sum("hark_listener_synced", &[]) == Some(3.0)
    });
    let start = start.await;
    seen.server.create(config_map("poison", "x"))?;
    let dead = [("plugin", "poison")];
    let after = seen
        .metrics("the event to be given up", |scrape| {
            scrape.get("hark_listener_dead_letters_total", &dead) == Some(1.0)
                && scrape.get("hark_listener_pending", &[("plugin", "again")]) == Some(0.0)
                && scrape.get("hark_listener_pending", &[("plugin", "never")]) == Some(0.0)
                && scrape.get("hark_listener_retried_total", &[("plugin", "again")])
                    > start.get("hark_listener_retried_total", &[("plugin", "again")])
        })
        .await;
    let moved = |metric: &str, labels: &[(&str, &str)]| {
        Some(after.get(metric, labels)? - start.get(metric, labels).unwrap_or_default())
    };
    let by = |plugin, outcome| {
        moved("hark_listener_deliveries_total", &[("plugin", plugin), ("outcome", outcome)])
    };
    assert_eq!((by("poison", "trap"), by("poison", "ok")), (Some(2.0), Some(0.0)));
    assert_eq!((by("again", "retry"), by("again", "ok")), (Some(2.0), Some(1.0)));
    assert_eq!((by("never", "permanent"), by("never", "retry")), (Some(1.0), Some(0.0)));
    assert_eq!(moved("hark_listener_retried_total", &[("plugin", "again")]), Some(2.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rude_clients_and_a_plugin_that_spins_leave_it_responsive() -> Result<()> {
    let limits = "[plugins.spin.limits]\ndeadline = \"10m\"\nbudget = \"1h\"\n";
    let setup = Setup::new()?
        .config(limits)?
        .plugin("spin", &fixture("spin"))?
        .plugin("spin-too", &fixture("spin"))?
        .plugin("counter", &fixture("counter-v1"))?;
    let mut seen = Seen::start(setup, async |_| {}).await?;
    seen.server.create(config_map("a", "x"))?;
    seen.metrics("it to spin", |scrape| {
        scrape.get("hark_listener_in_flight", &[("plugin", "spin")]) == Some(1.0)
    })
    .await;
    // The other plugins may still be on their way.
    seen.ready(200, "[+]plugin counter running").await;
    let admin = seen.admin;

    let huge = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    // The server may have closed before the whole of it was sent: then there is nothing to read either.
    if let Ok(answer) = send(admin, &huge).await {
        assert_eq!(answer.status, 431);
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer =
            send(admin, &format!("{method} /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")).await?;
        assert_eq!(answer.status, 405, "{method}");
        assert!(
            answer.head.contains("allow: GET, HEAD") && answer.head.contains("application/json"),
            "{method}"
        );
    }
    let answer = get(admin, "/metrics/../secret").await?;
    let error: Value = serde_json::from_str(&answer.body)?;
    assert_eq!((answer.status, &error["paths"][0]), (404, &json!("/livez")));
    let head = send(admin, "HEAD /metrics HTTP/1.1\r\n\r\n").await?;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(send(admin, "nonsense\r\n\r\n").await?.status, 400);

    let mut crowd = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(admin).await?;
        if number % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nSlow: ").await?;
        }
        crowd.push(stream);
    }
    let mut slowest = Duration::ZERO;
    for path in ["/livez", "/readyz", "/metrics", "/api/plugins", "/api/informers"].repeat(4) {
        let begun = Instant::now();
        let answer = seen.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "an answer took {slowest:?} beside 200 idle clients");
    let last = crowd.last_mut().context("a crowd")?;
    let begun = Instant::now();
    // It sent half a head or nothing: closed, with 408 or without a word.
    let _ = tokio::time::timeout(LIMIT, read(last)).await.context("a slow client is kept for ever")?;
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(seen.hark.runs()?);
    assert_eq!(seen.get("/livez").await.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_host_stops_it_is_alive_and_not_ready() -> Result<()> {
    let limits = "[plugins.spin.limits]\ndeadline = \"10m\"\nbudget = \"1h\"\n";
    let setup = Setup::new()?.config(limits)?.plugin("spin", &fixture("spin"))?;
    let mut seen = Seen::start(setup, async |server| {
        server.create(config_map("a", "x")).expect("created");
    })
    .await?;
    seen.metrics("it to spin", |scrape| scrape.sum("hark_listener_in_flight", &[]) == Some(1.0)).await;
    seen.hark.signal("TERM")?;
    let stopping = seen.ready(503, "[-]shutdown failed: the host is stopping").await;
    ensure!(stopping.ends_with("readyz check failed\n"), "{stopping}");
    assert_eq!(seen.get("/livez").await.body, "ok");
    ensure!(seen.hark.ends().await?.success(), "an orderly end");
    Ok(())
}

/// Runs `hark run` in a folder until it ends; gives its exit code and standard error.
fn ends(setup: &std::path::Path, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = clean(Command::new(binary())).args(arguments).current_dir(setup).output()?;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_ends_run_and_leaves_dev_without_unless_it_was_asked_for() -> Result<()> {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    let server = Server::start(ServerConfig::default()).await?;
    let folder = tempfile::tempdir()?;
    server.write_kubeconfig(&folder.path().join("kubeconfig"))?;
    fs::write(folder.path().join("hark.toml"), format!("[host]\nadmin = \"{address}\"\n"))?;
    let says = format!("cannot open the admin port on {address}: Address already in use");
    let commands: [&[&str]; 3] = [
        &["run", "--kubeconfig", "kubeconfig"],
        &["run", "--kubeconfig", "kubeconfig", "--admin", &address],
        &["dev", "--admin", &address],
    ];
    for arguments in commands {
        let (code, stderr) = ends(folder.path(), arguments)?;
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        ensure!(stderr.contains(&says) && stderr.contains("--admin off"), "{arguments:?}: {stderr}");
    }
    let (code, stderr) = ends(folder.path(), &["run", "--admin", "localhost"])?;
    assert_eq!(code, Some(2), "wrong usage");
    ensure!(stderr.contains("expected an IP address with a port"), "{stderr}");

    let config = format!("[host]\nadmin = \"{address}\"\n");
    let mut dev = Setup::new()?.config(&config)?.admin(None).start(&["dev"])?;
    dev.says(&[&format!("there is no admin port: {says}")]).await;
    dev.shows(&["kubectl --kubeconfig "]).await;
    ensure!(dev.runs()?, "it goes on");
    let off = Setup::new()?.config(&config)?.admin(Some("off")).start(&["dev"])?;
    off.says(&["no plugins in plugins yet"]).await;
    ensure!(!off.stdout().contains("admin port") && !off.stderr().contains("admin port"), "{}", off.state());
    Ok(())
}
