//! A TCP proxy on loopback that can be cut: puts an API server out of Hark's reach and leaves it in ours.
//!
//! Invariant: after [`Proxy::cut`] returns, no byte goes either way and new connections are refused until
//! [`Proxy::mend`].

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// See the file's head.
pub struct Proxy {
    address: SocketAddr,
    target: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `target`.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port for the proxy")?;
        let address = listener.local_addr()?;
        Ok(Self { address, target, serving: Some(tokio::spawn(serve(listener, target))) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks every connection and takes no new ones.
    pub async fn cut(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            // Cancelled: that is what was asked for. The listener and all connections are dropped with it.
            let _ = serving.await;
        }
    }

    /// Takes connections again.
    ///
    /// # Errors
    /// If the port is gone.
    pub async fn mend(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.address).await.context("the proxy's port is gone")?;
        self.serving = Some(tokio::spawn(serve(listener, self.target)));
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

async fn serve(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((mut near, _)) = accepted else { continue };
                connections.spawn(async move {
                    // A target that is down looks like a connection that is closed at once.
                    if let Ok(mut far) = TcpStream::connect(target).await {
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
