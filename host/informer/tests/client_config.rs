//! What the client says about a configuration that cannot be used: the file and the context, always.

use std::path::{Path, PathBuf};

use hark_informer::client::{Client, ClientError, ClientLimits, ClientOptions};

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters:
- name: here
  cluster: {server: 'http://127.0.0.1:1/prefix/'}
- name: odd
  cluster: {server: 'not a url'}
users:
- name: me
  user: {token: secret}
contexts:
- name: good
  context: {cluster: here, user: me}
- name: bad
  context: {cluster: odd, user: me}
- name: dangling
  context: {cluster: nowhere, user: me}
";

fn write(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("client-config-{name}"));
    std::fs::write(&path, text).expect("a file");
    path
}

async fn client(path: &Path, context: Option<&str>) -> Result<Client, ClientError> {
    let options =
        ClientOptions { kubeconfig: Some(path.to_owned()), context: context.map(ToOwned::to_owned) };
    Client::from_options(options).await
}

async fn problem(path: &Path, context: Option<&str>) -> String {
    let error = client(path, context).await.expect_err("no client");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "the file is named: {text}");
    text
}

#[tokio::test]
async fn a_context_chooses_the_server() {
    let path = write("good", KUBECONFIG);
    let client = client(&path, Some("good")).await.expect("a client");
    assert_eq!(client.server(), "http://127.0.0.1:1/prefix");
    let path = write("current", &format!("{KUBECONFIG}current-context: good\n"));
    assert!(self::client(&path, None).await.is_ok());
}

#[tokio::test]
async fn an_error_names_the_file_and_the_context() {
    let path = write("names", KUBECONFIG);
    let missing = problem(&path, Some("other")).await;
    assert!(missing.contains("no context `other`; it has: good, bad, dangling"), "{missing}");
    let none = problem(&path, None).await;
    assert!(none.contains("no current context; choose one of: good, bad"), "{none}");
    for context in ["bad", "dangling"] {
        let unusable = problem(&path, Some(context)).await;
        assert!(unusable.contains(&format!("context `{context}`: ")), "{unusable}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_kubeconfig_is_named() {
    problem(Path::new("/nowhere/at/all"), None).await;
    problem(&write("garbage", "{ clusters: [ }"), Some("good")).await;
    let empty = problem(&write("empty", ""), Some("good")).await;
    assert!(empty.ends_with("has no contexts: is it a kubeconfig?"), "{empty}");
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    for url in ["", "127.0.0.1", "http://", "a b"] {
        assert!(
            matches!(Client::from_url(url, ClientLimits::default()), Err(ClientError::Url { .. })),
            "{url}"
        );
    }
}
