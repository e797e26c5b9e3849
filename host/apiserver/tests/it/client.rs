//! A small HTTP client, and a server with a namespace `t` for each test.

use std::time::Duration;

use bytes::Bytes;
use hark_apiserver::{Config, Handle, Server};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Longer than anything here takes, short enough to tell a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Test {
    pub(crate) server: Handle,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    /// Names of the items of a list.
    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array().expect("a list");
        items.iter().map(|i| i["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }

    pub(crate) fn meta(&self, field: &str) -> String {
        self.json()["metadata"][field].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) async fn start() -> Test {
    start_with(Config::default()).await
}

pub(crate) async fn start_with(config: Config) -> Test {
    let config = Config { namespaces: vec!["t".into()], ..config };
    Test { server: Server::start(config).await.expect("starts") }
}

impl Test {
    pub(crate) async fn connect(
        &self,
    ) -> std::io::Result<hyper::client::conn::http1::SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.server.address()).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = Request::builder().method(method).uri(path).header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
        let answer = self.connect().await?.send_request(request);
        Ok(tokio::time::timeout(PATIENCE, answer).await??)
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let response = self.raw(method, path, headers, body).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("an end").expect("a body");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("utf-8");
        Answer { code: parts.status.as_u16(), headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send("GET", path, &[("accept", accept)], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        let media = format!("application/{kind}");
        self.send("PATCH", path, &[("content-type", &media)], &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let response = self.raw("GET", path, &[("accept", accept)], "").await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        Watch { body: response.into_body(), rest: Vec::new() }
    }

    /// Creates a config map in `t` in process.
    pub(crate) fn config_map(&self, name: &str, labels: Value, data: Value) -> Value {
        self.server.create(config_map(name, labels, data)).expect("created")
    }

    /// Writes a config map in process, created or replaced.
    pub(crate) fn write(&self, name: &str, labels: Value, data: Value) -> Value {
        self.server.apply(config_map(name, labels, data)).expect("applied")
    }

    pub(crate) fn delete_config_map(&self, name: &str) {
        self.server.delete(&config_map(name, json!({}), json!({}))).expect("deleted");
    }
}

pub(crate) fn config_map(name: &str, labels: Value, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "t", "labels": labels}, "data": data,
    })
}

/// A watch's events, one a line.
pub(crate) struct Watch {
    body: Incoming,
    rest: Vec<u8>,
}

/// How a stream of events went on.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Event(String, Value),
    End,
    Broken,
}

impl Watch {
    pub(crate) async fn next(&mut self) -> Next {
        while !self.rest.contains(&b'\n') {
            match tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event or an end") {
                None => {
                    assert!(self.rest.is_empty(), "the last event is whole");
                    return Next::End;
                }
                Some(Err(_)) => return Next::Broken,
                Some(Ok(frame)) => self.rest.extend_from_slice(&frame.into_data().expect("data")),
            }
        }
        let end = self.rest.iter().position(|b| *b == b'\n').expect("a whole line");
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        let event: Value = serde_json::from_slice(&line).expect("one event a line");
        Next::Event(event["type"].as_str().expect("a type").to_owned(), event["object"].clone())
    }

    /// The next event as its type, and name and version of the object.
    pub(crate) async fn brief(&mut self) -> String {
        match self.next().await {
            Next::Event(kind, object) if kind == "ERROR" => {
                format!("ERROR {} {}", object["code"], object["message"])
            }
            Next::Event(kind, object) => {
                let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
                let meta = &object["metadata"];
                format!("{kind} {} {}", text(&meta["name"]), text(&meta["resourceVersion"]))
            }
            other => format!("{other:?}"),
        }
    }

    pub(crate) async fn briefs(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.brief().await);
        }
        all
    }
}
