//! Dead letters with the real binary: kept for their owner alone, listed, replayed after the plugin was mended, and
//! unharmed by restarts and by whatever is in their file (delivery contract 9).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup, binary, clean};
use hark_tests::http::send;
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

const CONFIG: &str = "[defaults.limits]\nmax_attempts = 2\n";

/// A host with one plugin, `p`, and a state folder that outlives it.
struct Case {
    server: Handle,
    kubeconfig: NamedTempFile,
    state: TempDir,
}

impl Case {
    async fn start() -> Result<Self> {
        let server = Server::start(ServerConfig::default()).await?;
        let kubeconfig = NamedTempFile::new()?;
        server.write_kubeconfig(kubeconfig.path())?;
        Ok(Self { server, kubeconfig, state: TempDir::new()? })
    }

    fn host(&self, file: &Path) -> Result<Hark> {
        let config = format!("[host]\nstate_dir = {:?}\n{CONFIG}", self.state.path());
        Setup::new()?.config(&config)?.plugin("p", file)?.run(self.kubeconfig.path())
    }

    /// `hark dead-letters …` as somebody types it somewhere else.
    fn command(&self, arguments: &[&str]) -> Result<Output> {
        let config = self.state.path().join("cli.toml");
        fs::write(&config, format!("[host]\nstate_dir = {:?}\n", self.state.path()))?;
        let mut command = clean(Command::new(binary()));
        Ok(command.arg("dead-letters").arg("--config").arg(config).args(arguments).output()?)
    }

    fn list(&self) -> Vec<Value> {
        let output = self.command(&["list", "-o", "json"]).expect("it runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("a JSON array")
    }

    /// Waits until there are letters of exactly these events.
    async fn letters(&self, hark: &Hark, want: &[&str]) -> Vec<Value> {
        let told = |letter: &Value| format!("{} {}", text(letter, "op"), text(letter, "key"));
        eventually(
            &format!("letters of {want:?}"),
            || format!("{:?}\n{}", self.list(), hark.state()),
            async || {
                let letters = self.list();
                letters.iter().map(told).eq(want.iter().map(ToString::to_string)).then_some(letters)
            },
        )
        .await
    }

    /// The file of the one cluster.
    fn file(&self) -> PathBuf {
        let folders = fs::read_dir(self.state.path()).expect("a folder");
        let mut folders = folders.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
        folders.next().expect("the cluster's folder").join("dead-letters.jsonl")
    }
}

fn text<'a>(letter: &'a Value, field: &str) -> &'a str {
    letter[field].as_str().unwrap_or_default()
}

fn config_map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text},
        "metadata": {"name": name, "namespace": "default"},
    })
}

fn put(server: &Handle, name: &str, text: &str) -> Result<()> {
    server.apply(config_map(name, text)).map(drop).map_err(|error| anyhow::anyhow!("{error:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_kept_for_its_owner_listed_and_replayed_after_a_good_build_was_saved() -> Result<()> {
    let case = Case::start().await?;
    let hark = case.host(&fixture("trap-on-poison"))?;
    put(&case.server, "poison", "first")?;
    let letters = case.letters(&hark, &["add default/poison"]).await;
    let letter = &letters[0];
    let want = json!({
        "plugin": "p", "generation": 1, "subscription": "configmaps", "api_version": "v1", "kind": "ConfigMap",
        "reason": null, "attempts": 2, "outcome": "trap", "object": null,
    });
    for (field, want) in want.as_object().context("an object")? {
        assert_eq!(&letter[field], want, "{field} of {letter}");
    }
    ensure!(text(letter, "message").contains("unreachable"), "{letter}");
    assert_eq!(case.file().metadata()?.permissions().mode() & 0o777, 0o600);
    assert_eq!(case.file().parent().context("a folder")?.metadata()?.permissions().mode() & 0o777, 0o700);

    let id = text(letter, "id");
    let table = String::from_utf8(case.command(&["list"])?.stdout)?;
    ensure!(table.starts_with("ID ") && table.contains(id) && table.contains("trap x2"), "{table}");
    let shown: Value = serde_json::from_slice(&case.command(&["show", &id[..8]])?.stdout)?;
    assert_eq!(&shown, letter);

    // The bad build is asked once more: the letter becomes one again.
    ensure!(case.command(&["replay", id])?.status.success());
    let again = eventually(
        "another letter",
        || hark.state(),
        async || case.list().into_iter().find(|letter| text(letter, "id") != id),
    )
    .await;
    assert_eq!(text(&again, "key"), "default/poison");

    hark.save("p", &fixture("counter-v1"))?;
    hark.traces("the new build's initial add", |trace| {
        trace.iter().any(|line| line.generation == 2 && line.key == "default/poison" && line.outcome == "ok")
    })
    .await;
    let replayed = case.command(&["replay", "--all"])?;
    ensure!(replayed.status.success(), "{replayed:?}");
    case.letters(&hark, &[]).await;
    let trace = hark.trace();
    let last = trace.iter().rfind(|line| line.key == "default/poison").context("it was told")?;
    assert_eq!((last.op.as_str(), last.resync, last.outcome.as_str()), ("update", true, "ok"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_is_kept_with_its_object_survives_a_restart_and_is_delivered_as_it_was() -> Result<()> {
    let case = Case::start().await?;
    let mut hark = case.host(&fixture("trap-on-poison"))?;
    put(&case.server, "poison", "last words")?;
    case.letters(&hark, &["add default/poison"]).await;
    case.server.delete(&config_map("poison", "")).expect("it is there");
    let letters = case.letters(&hark, &["add default/poison", "delete default/poison"]).await;
    assert_eq!(letters[1]["object"]["data"]["text"], "last words");
    assert_eq!(letters[1]["reason"], "deleted");

    hark.signal("TERM")?;
    ensure!(hark.ends().await?.success());
    let refused = case.command(&["replay", "--all"])?;
    ensure!(!refused.status.success(), "{refused:?}");
    ensure!(String::from_utf8_lossy(&refused.stderr).contains("no hark runs for"), "{refused:?}");

    let hark = case.host(&fixture("counter-v1"))?;
    put(&case.server, "other", "x")?;
    hark.traces("the first event", |trace| trace.iter().any(|line| line.key == "default/other")).await;
    let replayed = case.command(&["replay", "--plugin", "p"])?;
    ensure!(replayed.status.success(), "{replayed:?}");
    let said = String::from_utf8(replayed.stdout)?;
    ensure!(said.contains("obsolete: the object is gone") && said.contains(" queued\n"), "{said}");
    case.letters(&hark, &[]).await;
    let trace = hark.trace();
    let line = trace.iter().find(|line| line.key == "default/poison").context("it was told")?;
    assert_eq!(
        (line.op.as_str(), line.reason.as_deref(), line.uid.as_str()),
        ("delete", Some("deleted"), text(&letters[1], "uid"))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_of_a_secret_has_nothing_of_its_contents() -> Result<()> {
    let case = Case::start().await?;
    let hark = case.host(&fixture("trap-on-secrets"))?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"password": "aHVudGVyMg=="},
        "metadata": {"name": "s", "namespace": "default", "annotations": {"note": "hunter2"}},
    });
    case.server.apply(secret.clone()).expect("it is made");
    case.letters(&hark, &["add default/s"]).await;
    case.server.delete(&secret).expect("it is there");
    let letters = case.letters(&hark, &["add default/s", "delete default/s"]).await;
    let (uid, rv) = (&letters[1]["uid"], &letters[1]["rv"]);
    let name = json!({"name": "s", "namespace": "default", "uid": uid, "resourceVersion": rv});
    assert_eq!(letters[1]["object"], json!({"apiVersion": "v1", "kind": "Secret", "metadata": name}));
    assert_eq!(letters[1]["message"], Value::Null, "it might quote the Secret");
    let file = fs::read_to_string(case.file())?;
    ensure!(!file.contains("aHVudGVyMg==") && !file.contains("hunter2"), "{file}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_letter_is_reported_and_harms_neither_the_list_nor_the_host() -> Result<()> {
    let case = Case::start().await?;
    let hark = case.host(&fixture("trap-on-poison"))?;
    put(&case.server, "poison", "1")?;
    let letters = case.letters(&hark, &["add default/poison"]).await;
    let mut hostile = letters[0].clone();
    hostile["id"] = "00000000beef".into();
    hostile["plugin"] = "\u{1b}[2Jnone".into();
    let mut bytes = fs::read(case.file())?;
    bytes.extend_from_slice(format!("{hostile}\n").as_bytes());
    bytes.extend_from_slice(b"\xff\xfe\0\n{}\n{\"id\":\"half");
    fs::write(case.file(), bytes)?;

    let listed = case.command(&["list"])?;
    ensure!(listed.status.success(), "{listed:?}");
    let (table, complaints) = (String::from_utf8(listed.stdout)?, String::from_utf8(listed.stderr)?);
    ensure!(!table.contains('\u{1b}') && table.contains("\\u{1b}[2Jnone"), "{table}");
    for line in ["line 3 ", "line 4 ", "line 5 "] {
        ensure!(complaints.contains(line), "{complaints}");
    }
    let refused = case.command(&["replay", "00000000beef"])?;
    ensure!(!refused.status.success() && !refused.stderr.contains(&0x1b), "{refused:?}");
    put(&case.server, "poison", "2")?;
    case.letters(&hark, &["add default/poison", "add default/poison", "update default/poison"]).await;
    ensure!(case.command(&["drop", "--all"])?.status.success());
    case.letters(&hark, &[]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_for_those_who_are_no_web_page() -> Result<()> {
    let case = Case::start().await?;
    let hark = case.host(&fixture("counter-v1"))?;
    let admin = hark.admin().await;
    let path = "/api/dead-letters/00000000beef/replay";
    for (method, headers, status) in [
        ("GET", "X-Hark: 1\r\n", 405),
        ("POST", "", 403),
        ("POST", "X-Hark: 1\r\nOrigin: http://localhost:9464\r\n", 403),
        ("POST", "X-Hark: 1\r\n", 404),
    ] {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\n{headers}Content-Length: 0\r\n\r\n");
        assert_eq!(send(admin, &request).await?.status, status, "{method} {headers:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_folder_that_another_host_has_is_an_error_that_stops_nothing() -> Result<()> {
    let case = Case::start().await?;
    let first = case.host(&fixture("trap-on-poison"))?;
    put(&case.server, "poison", "1")?;
    case.letters(&first, &["add default/poison"]).await;
    let second = case.host(&fixture("trap-on-poison"))?;
    second.says(&["dead letters cannot be kept: another hark", "add default/poison is given up"]).await;
    assert_eq!(case.list().len(), 1);
    Ok(())
}
