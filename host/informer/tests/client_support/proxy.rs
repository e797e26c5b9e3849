//! An HTTP proxy that leads every tunnel to one server, whatever it was asked for.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// The proxy. Ends when dropped.
pub struct Proxy {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    running: CancellationToken,
}

impl Proxy {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (heads, running) = (Arc::default(), CancellationToken::new());
        let (kept, token) = (Arc::clone(&heads), running.clone());
        tokio::spawn(running.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(token.clone().run_until_cancelled_owned(tunnel(
                    client,
                    server,
                    Arc::clone(&kept),
                )));
            }
        }));
        Self { address, heads, running }
    }

    /// What was asked of it, whole heads.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.cancel();
    }
}

async fn tunnel(mut client: TcpStream, server: SocketAddr, heads: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = client.read_u8().await else { return };
        head.push(byte);
    }
    heads.lock().expect("no panic").push(String::from_utf8_lossy(&head).into_owned());
    let mut server = TcpStream::connect(server).await.expect("the server");
    if client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_ok() {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
