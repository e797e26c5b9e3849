//! Plain HTTP/1.1 by hand, for asking Hark's admin port as rudely as a test likes.
//!
//! Invariant: every answer is read to its end, within [`LIMIT`].

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::LIMIT;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and headers, as sent.
    pub head: String,
    /// The body.
    pub body: String,
}

/// `GET path`.
///
/// # Errors
/// If there is no answer.
pub async fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")).await
}

/// Sends a text as it is and reads until the other side closes.
///
/// # Errors
/// If there is no answer.
pub async fn send(address: SocketAddr, request: &str) -> Result<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        read(&mut stream).await
    };
    tokio::time::timeout(LIMIT, exchange).await.context("no answer in time")?
}

/// Reads an answer until the other side closes.
///
/// # Errors
/// If it is not one.
pub async fn read(stream: &mut TcpStream) -> Result<Answer> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let text = String::from_utf8(bytes)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}
