//! Log, screen and trace that cannot be written, with the real binary: a full device, a pipe whose reader is gone or
//! does not read. Plugins go on, what is lost is counted, and signals end the host.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup, TraceTo, binary, clean};
use hark_tests::http::{get, send};
use hark_tests::prometheus::Scrape;
use hark_tests::{LIMIT, eventually};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStderr;

const LOST: &str = "hark_output_lines_lost_total";

/// One event of `flood-log` is more than may wait for the log.
const FLOOD: &str = "[plugins.flood-log]\nlimits = { log_lines = 100000, deadline = \"off\" }\n";

fn full_device() -> Result<File> {
    Ok(File::options().write(true).open("/dev/full")?)
}

/// A pipe that has no room left. Nobody reads it; it is whole for as long as the reader is kept.
fn full_pipe() -> Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = pipe()?;
    let flags = fcntl_getfl(&writer)?;
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK)?;
    let error = loop {
        if let Err(error) = writer.write(b"x") {
            break error;
        }
    };
    ensure!(error.kind() == ErrorKind::WouldBlock, "the pipe is not full, but: {error}");
    fcntl_setfl(&writer, flags)?;
    Ok((reader, writer))
}

/// An address for an admin port that cannot be read in the log.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

async fn cluster() -> Result<Cluster> {
    Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")
}

/// The value of a series now; none while nobody answers.
async fn value(admin: SocketAddr, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let scrape = Scrape::parse(&get(admin, "/metrics").await.ok()?.body).ok()?;
    scrape.get(name, labels)
}

/// Waits until a series has reached a value.
async fn reaches(hark: &Hark, admin: SocketAddr, name: &str, labels: &[(&str, &str)], least: f64) {
    let reached = async || value(admin, name, labels).await.filter(|value| *value >= least).map(|_| ());
    eventually(&format!("{name} {labels:?} of {least}"), || hark.state(), reached).await;
}

/// Creates objects and waits until the trace has the adds of all of them, each handled once by each plugin.
async fn all_are_told(hark: &Hark, cluster: &Cluster, plugins: &[&str], names: &[&str]) -> Result<()> {
    for name in names {
        cluster.create(name, "1").await?;
    }
    for plugin in plugins {
        let told = |trace: &[hark_tests::trace::Line]| {
            let ours = trace.iter().filter(|line| line.plugin == *plugin && line.outcome == "ok");
            let keys: Vec<String> = ours.map(|line| line.key.clone()).collect();
            names.iter().all(|name| keys.iter().filter(|key| **key == format!("default/{name}")).count() == 1)
        };
        hark.traces(&format!("every event of {plugin}"), told).await;
    }
    Ok(())
}

async fn ends_well(hark: &mut Hark) -> Result<()> {
    hark.signal("TERM")?;
    let status = hark.ends().await?;
    ensure!(status.success(), "{status}\n{}", hark.state());
    Ok(())
}

/// Reads the log up to where it says where the admin port is.
async fn admin_of(lines: &mut Lines<BufReader<ChildStderr>>) -> Result<SocketAddr> {
    Ok(wait_for(lines, "admin port ready at http://").await?.parse()?)
}

/// Reads up to a line with this text; gives what follows it.
async fn wait_for(lines: &mut Lines<BufReader<ChildStderr>>, text: &str) -> Result<String> {
    let search = async {
        while let Some(line) = lines.next_line().await? {
            if let Some((_, after)) = line.split_once(text) {
                return Ok(after.trim().to_owned());
            }
        }
        anyhow::bail!("the log ends without {text:?}")
    };
    tokio::time::timeout(LIMIT, search).await.with_context(|| format!("the log never has {text:?}"))?
}

/// A host with a good plugin and one that floods a log which nobody reads further than to the admin port, after the
/// flood.
async fn flooded(cluster: &Cluster) -> Result<(Hark, SocketAddr, Lines<BufReader<ChildStderr>>)> {
    let setup = Setup::new()?.config(FLOOD)?.stderr_to(Stdio::piped());
    let setup = setup.plugin("counter-v1", &fixture("counter-v1"))?;
    let mut hark = setup.plugin("flood-log", &fixture("flood-log"))?.run(cluster.kubeconfig())?;
    let mut log = BufReader::new(hark.take_stderr().context("the pipe")?).lines();
    let admin = admin_of(&mut log).await?;
    all_are_told(&hark, cluster, &["counter-v1", "flood-log"], &["a", "b"]).await?;
    reaches(&hark, admin, LOST, &[("sink", "log")], 1.0).await;
    Ok((hark, admin, log))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_holds_no_plugin_up_and_a_signal_ends_the_host() -> Result<()> {
    let cluster = cluster().await?;
    let (mut hark, admin, _unread) = flooded(&cluster).await?;
    let names = ["c", "d", "e", "f"];
    all_are_told(&hark, &cluster, &["counter-v1"], &names).await?;
    assert_eq!(get(admin, "/livez").await?.status, 200);
    ends_well(&mut hark).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_read_again_says_how_much_it_has_lost() -> Result<()> {
    let cluster = cluster().await?;
    let (mut hark, admin, mut log) = flooded(&cluster).await?;
    // The flood is over: what is lost by now is told at once.
    let lost = value(admin, LOST, &[("sink", "log")]).await.context("the metric")?;
    let read = tokio::spawn(async move {
        let mut told = 0.0;
        while told < lost {
            let line = log.next_line().await?.context("the log ends")?;
            if let Some((before, _)) = line.split_once(" log lines are lost here: standard error: too slow") {
                told += before.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
            }
        }
        while log.next_line().await?.is_some() {}
        anyhow::Ok(told)
    });
    reaches(&hark, admin, "hark_listener_pending", &[("plugin", "flood-log")], 0.0).await;
    ends_well(&mut hark).await?;
    assert_eq!(read.await??, lost);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_a_full_device_or_without_a_reader_costs_its_lines_only() -> Result<()> {
    let cluster = cluster().await?;
    let (reader, gone) = pipe()?;
    drop(reader);
    for (case, stderr) in [("full", Stdio::from(full_device()?)), ("gone", Stdio::from(gone))] {
        let admin = free_address()?;
        let setup = Setup::new()?.admin(Some(&admin.to_string())).stderr_to(stderr);
        let mut hark = setup.plugin("counter-v1", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
        all_are_told(&hark, &cluster, &["counter-v1"], &[&format!("{case}-1"), &format!("{case}-2")]).await?;
        // That it starts, that the plugin does, and a line for each event.
        reaches(&hark, admin, LOST, &[("sink", "log")], 4.0).await;
        ends_well(&mut hark).await.context(case)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_reader_goes_away_costs_its_lines_only() -> Result<()> {
    let cluster = cluster().await?;
    let setup = Setup::new()?.stderr_to(Stdio::piped());
    let mut hark = setup.plugin("counter-v1", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    let mut log = BufReader::new(hark.take_stderr().context("the pipe")?).lines();
    let admin = admin_of(&mut log).await?;
    wait_for(&mut log, "counter-v1 started: ").await?;
    drop(log);
    all_are_told(&hark, &cluster, &["counter-v1"], &["a", "b", "c"]).await?;
    reaches(&hark, admin, LOST, &[("sink", "log")], 3.0).await;
    ends_well(&mut hark).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_and_a_log_that_are_full_cost_their_lines_only() -> Result<()> {
    let admin = free_address()?;
    let setup = Setup::new()?.admin(Some(&admin.to_string()));
    let setup = setup.plugin("counter-v1", &fixture("counter-v1"))?;
    let setup = setup.stdout_to(full_device()?).stderr_to(full_device()?);
    let mut hark = setup.start(&["dev", "--write-kubeconfig", "kubeconfig"])?;
    let kubeconfig = hark.folder().join("kubeconfig");
    let server = async || {
        let text = std::fs::read_to_string(&kubeconfig).ok()?;
        text.split_once("server: http://")?.1.lines().next()?.trim().parse::<SocketAddr>().ok()
    };
    let server = eventually("the API server", || hark.state(), server).await;
    let object = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: h\r\nConnection: close";
    let length = object.len();
    let request =
        format!("{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{object}");
    let answer = send(server, &request).await?;
    ensure!(answer.status == 201, "{answer:?}");
    hark.traces("the event", |trace| trace.len() == 1).await;
    // Where the server is and how to use it, the admin port, the plugin's start, and an event.
    reaches(&hark, admin, LOST, &[("sink", "screen")], 5.0).await;
    // That the screen fails.
    reaches(&hark, admin, LOST, &[("sink", "log")], 1.0).await;
    ends_well(&mut hark).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_flood_of_failures_the_log_has_the_first_ten_of_each_kind() -> Result<()> {
    let (cluster, started) = (cluster().await?, Instant::now());
    let setup = Setup::new()?.plugin("retry-always", &fixture("retry-always"))?;
    let mut hark = setup.plugin("permanent", &fixture("permanent"))?.run(cluster.kubeconfig())?;
    for number in 0..30 {
        cluster.create(&format!("object-{number}"), "1").await?;
    }
    for outcome in ["retry", "permanent"] {
        let all = |trace: &[hark_tests::trace::Line]| {
            trace.iter().filter(|line| line.outcome == outcome).count() >= 30
        };
        hark.traces(&format!("30 times {outcome}"), all).await;
    }
    ends_well(&mut hark).await?;
    let (log, more) = (hark.stderr(), usize::try_from(started.elapsed().as_secs() / 30)?);
    for text in [": retry, attempt", ": permanent, attempt"] {
        let lines = log.lines().filter(|line| line.contains(text)).count();
        // On a machine so slow that a line has come back meanwhile there may be that one too.
        assert!((10..=10 + more).contains(&lines), "{lines} lines with {text:?}:\n{log}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_on_a_full_device_is_said_once_and_counted() -> Result<()> {
    let cluster = cluster().await?;
    let setup = Setup::new()?.trace_to(TraceTo::Nowhere).arguments(&["--trace", "/dev/full"]);
    let mut hark = setup.plugin("counter-v1", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    let admin = hark.admin().await;
    cluster.create("a", "1").await?;
    cluster.create("b", "1").await?;
    reaches(&hark, admin, LOST, &[("sink", "trace")], 2.0).await;
    hark.says(&["v1 add default/a ", "v1 add default/b "]).await;
    ends_well(&mut hark).await?;
    assert_eq!(hark.stderr().matches("lines are being lost").count(), 1, "{}", hark.stderr());
    Ok(())
}

/// A host whose plugin waits for a trace, and whose log waits too, that nobody reads. What it writes to is kept open.
async fn hanging(cluster: &Cluster) -> Result<(Hark, SocketAddr, [PipeReader; 2])> {
    let admin = free_address()?;
    let ((trace, stdout), (log, stderr)) = (full_pipe()?, full_pipe()?);
    let setup = Setup::new()?.trace_to(TraceTo::Nowhere).arguments(&["--trace", "-"]);
    let setup = setup.admin(Some(&admin.to_string())).stdout_to(stdout).stderr_to(stderr);
    let hark = setup.plugin("counter-v1", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    cluster.create("a", "1").await?;
    reaches(&hark, admin, "hark_listener_in_flight", &[("plugin", "counter-v1")], 1.0).await;
    Ok((hark, admin, [trace, log]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_hangs_lets_one_signal_end_the_host() -> Result<()> {
    let cluster = cluster().await?;
    let (mut hark, admin, _unread) = hanging(&cluster).await?;
    assert_eq!(get(admin, "/livez").await?.status, 200);
    ends_well(&mut hark).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_aborts_whatever_hangs() -> Result<()> {
    let cluster = cluster().await?;
    let (mut hark, admin, _unread) = hanging(&cluster).await?;
    hark.signal("TERM")?;
    let stopping = async || {
        let answer = get(admin, "/readyz").await.ok()?;
        answer.body.contains("[-]shutdown failed: the host is stopping").then_some(())
    };
    eventually("that it is stopping", || hark.state(), stopping).await;
    // One that comes with the first is not a second one, so it may take some.
    while hark.runs()? {
        hark.signal("TERM")?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(hark.ends().await?.code(), Some(130));
    Ok(())
}

#[test]
fn commands_end_quietly_when_nobody_reads_on_and_say_so_when_the_disk_is_full() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let list = |stdout: Stdio, stderr: Stdio| {
        let mut command = clean(Command::new(binary()));
        command.args(["dead-letters", "list", "-o", "json"]).current_dir(folder.path());
        command.env("XDG_STATE_HOME", folder.path()).stdout(stdout).stderr(stderr).spawn()?.wait_with_output()
    };
    let (reader, gone) = pipe()?;
    drop(reader);
    let output = list(gone.into(), Stdio::piped())?;
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), [].as_slice()));
    let output = list(full_device()?.into(), Stdio::piped())?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr)?;
    assert!(said.starts_with("hark: No space left on device"), "{said}");
    let output = list(full_device()?.into(), full_device()?.into())?;
    assert_eq!(output.status.code(), Some(1), "no panic");
    Ok(())
}
