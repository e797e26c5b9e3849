//! Passes bytes between a client and a server until told otherwise.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::within;

/// The way between a client and a server. Ends when dropped.
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    running: CancellationToken,
}

struct Shared {
    server: SocketAddr,
    /// Connections that came before this many silences pass nothing on.
    silences: watch::Sender<u32>,
    /// Connections end at once when this changes.
    cuts: watch::Sender<u32>,
    /// How often bytes came from the server.
    answers: watch::Sender<usize>,
}

impl Relay {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server,
            silences: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            answers: watch::Sender::new(0),
        });
        let running = CancellationToken::new();
        tokio::spawn(running.clone().run_until_cancelled_owned(accept(
            listener,
            Arc::clone(&shared),
            running.clone(),
        )));
        Self { address, shared, running }
    }

    /// The connections there are stay open and pass nothing on any more, as if the other end had lost its power. New
    /// ones work.
    pub fn fall_silent(&self) {
        self.shared.silences.send_modify(|times| *times += 1);
    }

    /// The connections there are break. New ones work.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|times| *times += 1);
    }

    /// Waits until bytes have come from the server so many times more.
    pub async fn hear(&self, times: usize) {
        let mut answers = self.shared.answers.subscribe();
        let want = *answers.borrow_and_update() + times;
        within("the server to speak", answers.wait_for(|heard| *heard >= want))
            .await
            .expect("the relay lives");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, running: CancellationToken) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(running.clone().run_until_cancelled_owned(pass(client, Arc::clone(&shared))));
    }
}

async fn pass(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let server = TcpStream::connect(shared.server).await.expect("the server");
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(from_client, to_server, shared.silences.subscribe(), None) => {}
        () = copy(from_server, to_client, shared.silences.subscribe(), Some(&shared.answers)) => {}
        _ = cuts.changed() => {}
    }
}

/// Until the end, or for ever once there is silence.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut silences: watch::Receiver<u32>,
    heard: Option<&watch::Sender<usize>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            biased;
            _ = silences.changed() => std::future::pending().await,
            read = from.read(&mut buffer) => read,
        };
        let Ok(count @ 1..) = read else { return };
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if let Some(heard) = heard {
            heard.send_modify(|times| *times += 1);
        }
    }
}
