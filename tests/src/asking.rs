//! Somebody who asks the admin port for everything, all the time.
//!
//! For suites in which a plugin misbehaves. Invariant: every answer is right, or the asking fails; each path is asked
//! at least once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::http::get;
use crate::prometheus::Scrape;

/// See the file's head.
pub struct Asking {
    task: JoinHandle<Result<(usize, Duration)>>,
    stop: Arc<AtomicBool>,
}

impl Asking {
    /// Begins to ask.
    pub fn start(admin: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        Self { task: tokio::spawn(ask(admin, stop.clone())), stop }
    }

    /// How many answers there were, and how long the slowest took.
    ///
    /// # Errors
    /// If a question had no answer or a wrong one.
    pub async fn stop(self) -> Result<(usize, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

async fn ask(admin: SocketAddr, stop: Arc<AtomicBool>) -> Result<(usize, Duration)> {
    let (mut answers, mut slowest) = (0, Duration::ZERO);
    // All of them at least once.
    while answers == 0 || !stop.load(Ordering::Relaxed) {
        for path in ["/livez", "/readyz?verbose", "/metrics", "/api/plugins", "/api/informers"] {
            let begun = Instant::now();
            let answer = get(admin, path).await.with_context(|| path.to_owned())?;
            slowest = slowest.max(begun.elapsed());
            // A plugin of which no version was good yet keeps the host from being ready, which is as it should be.
            let right = answer.status == 200 || (path.starts_with("/readyz") && answer.status == 503);
            ensure!(right, "{path}: {} {}", answer.status, answer.body);
            match path {
                "/metrics" => drop(Scrape::parse(&answer.body)?),
                "/api/plugins" | "/api/informers" => drop(serde_json::from_str::<Value>(&answer.body)?),
                "/readyz?verbose" => {
                    ensure!(answer.body.contains("[+]plugin good running"), "{}", answer.body)
                }
                _ => {}
            }
            answers += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok((answers, slowest))
}
