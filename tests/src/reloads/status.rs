//! What Hark says of its plugins when asked, asked by one for all.
//!
//! Invariant: an answer is of a moment between the question and its arrival, both of which are told with it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::sync::watch;

use super::config::Treatment;
use super::history::{Moment, now};
use crate::http;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(40);

/// All plugins at one moment.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// When it was asked.
    pub asked: Moment,
    /// When the answer was there.
    pub at: Moment,
    /// By name.
    pub plugins: BTreeMap<String, Status>,
}

/// One plugin; the fields are those of `/api/plugins`.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/plugins, see the README")]
pub struct Status {
    pub plugin: String,
    pub preparing: bool,
    pub taking_over: bool,
    pub running: Option<Run>,
    pub refused: Option<Refusal>,
    pub rollback: Option<Rollback>,
    pub queue: Option<Queue>,
}

/// What runs.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/plugins, see the README")]
pub struct Run {
    pub sha256: String,
    pub generation: u64,
    pub limits: Limits,
}

/// How it is bounded.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/plugins, see the README")]
pub struct Limits {
    pub log_lines: u32,
}

/// How it stands with rollback.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/plugins, see the README")]
pub struct Rollback {
    pub state: String,
    pub refused_sha256: Option<String>,
}

/// What does not.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/plugins, see the README")]
pub struct Refusal {
    pub sha256: Option<String>,
    pub message: String,
}

/// What waits.
#[derive(Debug, Clone, Copy, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/plugins, see the README")]
pub struct Queue {
    pub synced: bool,
    pub pending: usize,
    pub in_flight: usize,
    pub retrying: usize,
}

#[derive(Deserialize)]
struct Document {
    plugins: Vec<Status>,
}

impl Status {
    /// The content that runs.
    pub fn runs(&self) -> Option<&str> {
        self.running.as_ref().map(|runs| runs.sha256.as_str())
    }

    /// Whether it runs under such a treatment.
    pub fn is_treated(&self, treatment: &Treatment) -> bool {
        self.running.as_ref().is_some_and(|runs| runs.limits.log_lines == treatment.log_lines())
    }

    /// Whether all has come of it that must if this content is in the file, which breaks at every event or is good: it
    /// runs; or it was rolled back, and is refused.
    pub fn has_come_to_rest(&self, content: &str, is_bad: bool) -> bool {
        let state = self.rollback.as_ref().map(|rollback| rollback.state.as_str());
        if self.runs() == Some(content) {
            let is_settled = !is_bad || matches!(state, None | Some("good"));
            return self.refused.is_none() && is_settled;
        }
        let refused = self.rollback.as_ref().and_then(|rollback| rollback.refused_sha256.as_deref());
        is_bad && state == Some("rolled-back") && refused == Some(content)
    }
}

impl Queue {
    /// Whether everything has been handled.
    pub fn is_idle(&self) -> bool {
        self.synced && self.pending == 0 && self.in_flight == 0 && self.retrying == 0
    }
}

/// Asks again and again, until nobody wants to know any more.
///
/// # Errors
/// If Hark does not answer.
pub async fn ask(admin: SocketAddr, tell: watch::Sender<Answer>) -> Result<()> {
    while !tell.is_closed() {
        tell.send_replace(once(admin).await?);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn once(admin: SocketAddr) -> Result<Answer> {
    let asked = now();
    let answer = http::get(admin, "/api/plugins").await.context("/api/plugins")?;
    let at = now();
    let document: Document = serde_json::from_str(&answer.body).with_context(|| answer.body.clone())?;
    let plugins = document.plugins.into_iter().map(|status| (status.plugin.clone(), status)).collect();
    Ok(Answer { asked, at, plugins })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs, what is refused, and how it stands with rollback: `b on-trial`, `a rolled-back b`, `b`.
    fn status(text: &str) -> Status {
        let words: Vec<&str> = text.split(' ').collect();
        let refused = words.get(2).map(|sha256| (*sha256).to_owned());
        let refusal = || Refusal { sha256: refused.clone(), message: String::new() };
        let rollback =
            |state: &&str| Rollback { state: (*state).to_owned(), refused_sha256: refused.clone() };
        Status {
            plugin: "p".into(),
            preparing: false,
            taking_over: false,
            running: Some(Run {
                sha256: words[0].to_owned(),
                generation: 1,
                limits: Limits { log_lines: 1003 },
            }),
            refused: refused.as_ref().map(|_| refusal()),
            rollback: words.get(1).map(rollback),
            queue: None,
        }
    }

    #[test]
    fn a_good_build_is_at_rest_when_it_runs_and_a_bad_one_when_it_goes_on_or_was_rolled_back() {
        for (text, good, bad) in [
            ("a", false, false),
            ("a good", false, false),
            ("b", true, true),
            ("b good", true, true),
            ("b on-trial", true, false),
            ("b rolling-back b", false, false),
            ("b overruled", true, false),
            ("a rolled-back b", false, true),
            ("a rolled-back c", false, false),
            // What was refused before is forgotten only when this is noticed.
            ("b rolled-back c", false, false),
        ] {
            let status = status(text);
            let at_rest = (status.has_come_to_rest("b", false), status.has_come_to_rest("b", true));
            assert_eq!(at_rest, (good, bad), "{text}");
        }
    }

    #[test]
    fn a_treatment_is_known_by_its_setting() {
        let treatment = |setting| Treatment { setting, ..Treatment::default() };
        assert!(status("a").is_treated(&treatment(3)) && !status("a").is_treated(&treatment(4)));
        assert!(!Status { running: None, ..status("a") }.is_treated(&treatment(3)));
    }
}
