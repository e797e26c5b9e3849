//! Asks a running host, over its admin port, to replay a letter.
//!
//! Used by `hark dead-letters replay`. Invariant: nothing is waited for longer than [`LIMIT`].

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::admin::GUARD;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 64 << 10;

/// What the host says.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// `queued` or `obsolete`.
    #[serde(default)]
    pub(crate) result: String,
    /// Why.
    #[serde(default)]
    pub(crate) message: String,
    /// What is wrong.
    #[serde(default)]
    pub(crate) error: String,
}

/// Asks for one letter.
///
/// # Errors
/// If there is no answer, or a refusal.
pub(crate) async fn replay(admin: SocketAddr, id: &str) -> anyhow::Result<Answer> {
    let exchange = tokio::time::timeout(LIMIT, exchange(admin, id)).await;
    exchange.with_context(|| format!("the host at {admin} does not answer"))?
}

async fn exchange(admin: SocketAddr, id: &str) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(admin).await.with_context(|| format!("no host answers at {admin}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post(format!("/api/dead-letters/{id}/replay"))
        .header("host", admin.to_string())
        .header(GUARD, "1")
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
        read(status, &body)
    };
    // The connection is driven for as long as the answer takes.
    tokio::select! {
        answer = answer => answer,
        ended = async { connection.await?; std::future::pending::<hyper::Result<()>>().await } => {
            anyhow::bail!("the connection broke: {ended:?}")
        }
    }
}

fn read(status: StatusCode, body: &[u8]) -> anyhow::Result<Answer> {
    let answer: Answer =
        serde_json::from_slice(body).with_context(|| format!("whoever answers is no hark ({status})"))?;
    anyhow::ensure!(
        status.is_success(),
        "{}",
        if answer.error.is_empty() { status.as_str() } else { &answer.error }
    );
    Ok(answer)
}
