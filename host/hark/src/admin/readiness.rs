//! What `/livez` and `/readyz` say: one line for each thing that has to be well, as a kube-apiserver says it.
//!
//! Used by the paths of the admin port. Ready means: every informer in use has its first list in the cache or is
//! excused, every plugin has a version that runs, the plugins folder can be read, and the host is not stopping. What
//! is wrong but holds nobody back (a forbidden or absent resource, a refused new build, a rollback, a quarantine, trouble
//! after the first list) has its line, with `[-]`, and leaves the host ready: it heals by itself (delivery contracts 3, 12 and 13).

use std::fmt;
use std::time::Duration;

use hark_informer::listener::{Health, HealthState};
use hark_informer::reflector::{Phase, Problem};

use super::pulse::Silent;
use super::snapshot::{InformerFacts, PluginFacts, Snapshot};
use crate::plugins::view::{Coming, FolderState, RollbackState, RollbackView, View};
use crate::timestamp::timestamp;

/// Characters of a message that are shown in a line.
const SHOWN: usize = 500;

/// A look at the folder that takes longer is one that hangs.
const HANGS: Duration = Duration::from_secs(10);

/// One line: what was looked at, and how it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    subject: String,
    verdict: Verdict,
    text: String,
}

/// What a check means for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// All is well.
    Good,
    /// Something is wrong, and holds nobody back.
    Excused,
    /// The host is not ready, or not alive.
    Bad,
}

impl Check {
    fn new(subject: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict, text: text.into() }
    }

    /// Whether the answer may be 200.
    pub(super) fn passes(&self) -> bool {
        self.verdict != Verdict::Bad
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.verdict == Verdict::Good { '+' } else { '-' };
        write!(f, "[{sign}]{} {}", self.subject, one_line(&self.text))
    }
}

/// The one check of `/livez`.
pub(super) fn alive(answer: Result<(), Silent>) -> Check {
    match answer {
        Ok(()) => Check::new("manager", Verdict::Good, "ok"),
        Err(silent) => Check::new("manager", Verdict::Bad, format!("failed: {silent}")),
    }
}

/// The checks of `/readyz`.
pub(super) fn checks(snapshot: &Snapshot) -> Vec<Check> {
    let view = &*snapshot.view;
    let host = [shutdown(view), configuration(view), folder(view)];
    let plugins = snapshot.plugins.iter().map(plugin);
    host.into_iter().chain(plugins).chain(snapshot.informers.iter().map(informer)).collect()
}

fn shutdown(view: &View) -> Check {
    match view.stopping {
        false => Check::new("shutdown", Verdict::Good, "ok"),
        true => Check::new("shutdown", Verdict::Bad, "failed: the host is stopping"),
    }
}

fn configuration(view: &View) -> Check {
    match &view.config_error {
        None => Check::new("configuration", Verdict::Good, "ok"),
        Some(error) => Check::new(
            "configuration",
            Verdict::Excused,
            format!("failed: what was configured before stays: {}", in_a_line(error)),
        ),
    }
}

fn folder(view: &View) -> Check {
    let subject = format!("folder {}", view.folder.display());
    match &view.folder_state {
        FolderState::Unseen => Check::new(subject, Verdict::Bad, "not looked at yet"),
        FolderState::Readable => match view.looks.under_way().filter(|lasts| *lasts > HANGS) {
            None => Check::new(subject, Verdict::Good, format!("ok, {}", view.folder_way)),
            Some(lasts) => {
                let text =
                    format!("its file system has not answered for {} s; what runs goes on", lasts.as_secs());
                Check::new(subject, Verdict::Excused, text)
            }
        },
        FolderState::Unreadable(error) => {
            Check::new(subject, Verdict::Bad, format!("cannot be read, what runs goes on: {error}"))
        }
    }
}

fn plugin(facts: &PluginFacts) -> Check {
    let plugin = &facts.view;
    let refused = plugin.refusal.as_ref().map(|refusal| format!("refused: {}", refusal.message));
    let (verdict, text) = match (&plugin.running, refused) {
        (Some(running), refused) => {
            let trouble = match refused {
                Some(refused) => Some(format!("the file as it is now is {refused}")),
                None => facts.health.as_ref().and_then(quarantine),
            };
            let rollback = plugin.rollback.as_ref();
            let is_overruled = rollback.is_some_and(|rollback| rollback.state == RollbackState::Overruled);
            let is_well = trouble.is_none() && !is_overruled;
            let verdict = if is_well { Verdict::Good } else { Verdict::Excused };
            let runs = format!("running sha256:{}", running.hash.short());
            let said = [Some(runs), rollback.and_then(trial), coming(plugin.coming), trouble];
            (verdict, said.into_iter().flatten().collect::<Vec<_>>().join("; "))
        }
        (None, _) if plugin.coming != Coming::Nothing => {
            (Verdict::Bad, "its first version is being prepared".to_owned())
        }
        (None, Some(refused)) => (Verdict::Bad, format!("does not run: {refused}")),
        (None, None) => (Verdict::Bad, "does not run".to_owned()),
    };
    Check::new(format!("plugin {}", plugin.name), verdict, text)
}

/// What there is to say of a version that runs with rollback switched on. What was rolled back is refused besides.
fn trial(rollback: &RollbackView) -> Option<String> {
    let text = match rollback.state {
        RollbackState::Good | RollbackState::RolledBack => return None,
        RollbackState::OnTrial => "on trial",
        RollbackState::RollingBack => "nothing is handed over until the version before is back",
        RollbackState::Overruled => {
            let why = rollback.no_way_back.as_ref().map(|failed| format!(": {}", failed.why));
            let why = why.unwrap_or_default();
            return Some(format!("its first events broke it, and the version before cannot come back{why}"));
        }
    };
    Some(text.to_owned())
}

/// The successor of a version that runs.
fn coming(coming: Coming) -> Option<String> {
    let text = match coming {
        Coming::Nothing => return None,
        Coming::Preparing => "a new version is being prepared",
        Coming::TakingOver => "a new version takes over after the call under way",
    };
    Some(text.to_owned())
}

/// A plugin that is in quarantine; none if it is not. It has what it needs, and nobody waits for it.
fn quarantine(health: &Health) -> Option<String> {
    let next = match health.state {
        HealthState::Healthy | HealthState::Failing => return None,
        HealthState::Quarantined => {
            let wait = health.until.unwrap_or_default().as_secs_f64();
            format!("an event is tried in {wait:.0} s")
        }
        HealthState::Probing => "an event is being tried".to_owned(),
    };
    let (lasts, cause) = (health.lasts.as_secs_f64(), health.cause.as_deref().unwrap_or_default());
    Some(format!("in quarantine for {lasts:.0} s, {next}: {}", cut(cause)))
}

fn informer(facts: &InformerFacts) -> Check {
    let (verdict, text) = match &facts.status.problem {
        None if facts.synced => (Verdict::Good, "ok".to_owned()),
        None => (Verdict::Bad, waiting(facts.status.phase, facts.metrics.listing())),
        Some(problem) if facts.synced || !problem.kind.holds_others_back() => {
            (Verdict::Excused, trouble(problem))
        }
        Some(problem) => (Verdict::Bad, trouble(problem)),
    };
    Check::new(format!("informer {}", facts.selector), verdict, text)
}

/// An informer without its first list and without trouble; `objects` of that list have come.
fn waiting(phase: Phase, objects: u64) -> String {
    let text = match phase {
        Phase::Idle => "not started yet",
        Phase::Resolving => "silent: the API server has not said yet whether it has this resource",
        Phase::Listing if objects > 0 => return format!("listing: {objects} objects so far"),
        Phase::Listing => "silent: the API server has not sent anything of the first list yet",
        Phase::Watching => "the first list is on its way into the cache",
        Phase::Waiting { .. } => "waiting before the first list is asked for again",
        Phase::Stopped => "stopped",
    };
    text.to_owned()
}

fn trouble(problem: &Problem) -> String {
    format!("{}: {} since {}", problem.kind.as_str(), cut(&problem.message), timestamp(problem.since))
}

fn cut(message: &str) -> String {
    match message.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// A message whose errors have a line each, on one line.
fn in_a_line(error: &str) -> String {
    error.replace(":\n  ", ": ").replace("\n  ", "; ")
}

/// Messages come from servers and guests: none of them makes a line that is not ours, or speaks to a terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests;
