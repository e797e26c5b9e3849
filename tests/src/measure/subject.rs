//! The Hark that is measured: its API server, its folder, and the questions that are asked of it.
//!
//! Used by the measuring binaries. Invariant: whatever is waited for has a limit, and says what was there instead.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hark_apiserver::{Config, Handle, Server};

use super::process::{Activity, Usage};
use crate::hark::{Hark, Setup};
use crate::http;
use crate::prometheus::Scrape;

/// The longest that a thousand plugins may take to start on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// See the file's head.
pub struct Subject {
    /// The API server; in this process.
    pub server: Handle,
    /// The process that is measured.
    pub hark: Hark,
    /// Its admin port.
    pub admin: SocketAddr,
}

impl Subject {
    /// An API server that keeps `history` changes.
    ///
    /// # Errors
    /// If it cannot start.
    pub async fn server(history: usize) -> Result<Handle> {
        Ok(Server::start(Config { history, watch_buffer: history, ..Config::default() }).await?)
    }

    /// Starts Hark in a folder, against the server.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start(setup: Setup, server: Handle) -> Result<Self> {
        let kubeconfig = setup.folder().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let hark = setup.run(&kubeconfig)?;
        let admin = hark.admin().await;
        Ok(Self { server, hark, admin })
    }

    /// What it holds now.
    ///
    /// # Errors
    /// If it has ended.
    pub fn usage(&self) -> Result<Usage> {
        Usage::read(self.hark.pid())
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn activity(&self) -> Result<Activity> {
        Activity::read(self.hark.pid())
    }

    /// Its metrics.
    ///
    /// # Errors
    /// If it does not answer, or something that is no metrics.
    pub async fn scrape(&self) -> Result<Scrape> {
        Scrape::parse(&http::get(self.admin, "/metrics").await?.body)
    }

    /// Waits until the sum of a metric over all its series is at least `value`; gives how long that took.
    ///
    /// # Errors
    /// If it does not come about in time, or Hark has ended.
    pub async fn reaches(&mut self, metric: &str, labels: &[(&str, &str)], value: f64) -> Result<Duration> {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < LIMIT {
            if !self.hark.runs()? {
                bail!("hark has ended\n{}", self.hark.state());
            }
            last = self.scrape().await?.sum(metric, labels);
            if last.is_some_and(|last| last >= value) {
                return Ok(begun.elapsed());
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("{metric}{labels:?} is {last:?} after {LIMIT:?}, not {value}\n{}", self.hark.state())
    }

    /// Ends Hark in order, then the server.
    ///
    /// # Errors
    /// If it does not end, or not well.
    pub async fn stop(mut self) -> Result<()> {
        self.hark.signal("TERM")?;
        let status = self.hark.ends().await?;
        self.server.shutdown().await;
        status.success().then_some(()).with_context(|| format!("hark ended with {status}"))
    }
}
