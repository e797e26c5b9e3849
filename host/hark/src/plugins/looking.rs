//! What the looks found, brought into every slot.
//!
//! Used by the manager. Invariants: each fault of the folder is reported once, and again only after it was gone; one that
//! holds for a moment only is none (a folder or link that is being replaced in two steps, as kubelet and `mv` do it); a
//! plugin stops only when the looks say that its file is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hark_sandbox::LogLevel;
use tokio::time::Instant;

use super::Manager;
use super::slot::Slot;
use super::trial::Trial;
use crate::folder::{FolderState, Seen, Standing, Way};
use crate::kept::Record;

/// How long something must have been wrong before that is said.
const LASTING: Duration = Duration::from_millis(400);

/// What is wrong in the folder, or odd; each is said once, when it has held for [`LASTING`].
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// Each, with when it is to be said; none if it was.
    due: BTreeMap<(Grade, String), Option<Instant>>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Error,
    Warning,
    Remark,
}

impl Complaints {
    /// Takes in all that is wrong now, and forgets what is not any more.
    fn are(&mut self, all: BTreeSet<(Grade, String)>, now: Instant) {
        self.due.retain(|complaint, _| all.contains(complaint));
        for complaint in all {
            self.due.entry(complaint).or_insert(Some(now + LASTING));
        }
    }

    /// When there is something to say.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.values().flatten().min().copied()
    }

    /// Says what is due.
    pub(super) fn say(&mut self, now: Instant) {
        for (grade, complaint) in self.take_due(now) {
            match grade {
                Grade::Error => tracing::error!("{complaint}"),
                Grade::Warning => tracing::warn!("{complaint}"),
                Grade::Remark => tracing::info!("{complaint}"),
            }
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<&(Grade, String)> {
        let due = self.due.iter_mut().filter(|(_, due)| due.is_some_and(|due| due <= now));
        due.map(|(complaint, due)| {
            *due = None;
            complaint
        })
        .collect()
    }
}

impl Manager {
    /// Takes in what the looks found.
    pub(super) fn seen(&mut self, seen: Arc<Seen>) {
        self.seen = seen;
        self.update_slots();
        self.complain();
        self.prepare_changed();
    }

    /// The looker's thread has ended by itself: a fault of ours. What runs goes on.
    pub(super) fn blind(&mut self) {
        let message = "its thread has ended, which is a bug of the host's: restart it";
        tracing::error!("nobody looks at the plugins folder and the configuration any more: {message}");
        let state = FolderState::Unreadable(message.to_owned());
        self.seen = Arc::new(Seen { state, ..Seen::clone(&self.seen) });
    }

    /// Takes down what is wrong, in the folder or in what the operator says of it.
    pub(super) fn complain(&mut self) {
        let seen = self.seen.clone();
        let (folder, state) = (self.options.folder.display(), &seen.state);
        let mut all = BTreeSet::new();
        match state {
            FolderState::Unseen => return,
            FolderState::Unreadable(error) => {
                let complaint = format!("cannot read plugins folder {folder}: {error}; what runs goes on");
                all.insert((Grade::Warning, complaint));
            }
            FolderState::Readable => {
                if self.slots.is_empty() && seen.files.is_empty() {
                    all.insert((
                        Grade::Warning,
                        format!("no plugins in {folder} yet: copy a .wasm file there"),
                    ));
                }
                let tables = self.tables_without_plugin(&seen);
                all.extend(tables.into_iter().map(|complaint| (Grade::Warning, complaint)));
                all.extend(complaints(&seen));
            }
        }
        if seen.way != Way::Events {
            all.insert((Grade::Remark, format!("plugins folder {folder}: {}", seen.way)));
        }
        self.complaints.are(all, Instant::now());
    }

    /// A misspelt name would otherwise be a table that silently means nothing.
    fn tables_without_plugin(&self, seen: &Seen) -> Vec<String> {
        let (config, folder) = (self.config.path().display(), self.options.folder.display());
        let known = |name: &String| seen.files.contains_key(name) || seen.disputed.contains_key(name);
        let names = self.config.current().plugin_names().filter(|name| !known(name));
        names
            .map(|name| format!("{config} has [plugins.{name}], but there is no {name}.wasm in {folder}"))
            .collect()
    }

    fn update_slots(&mut self) {
        let seen = self.seen.clone();
        for (plugin, standing) in &seen.files {
            match standing {
                Standing::Settled(file) => {
                    let new = || Slot::new(Trial::new(self.options.kept.recall(plugin)));
                    self.slots.entry(plugin.clone()).or_insert_with(new).file_is(Some(file));
                }
                // A plugin is there from its first whole file on.
                Standing::Settling(_) | Standing::Leaving => {
                    if let Some(slot) = self.slots.get_mut(plugin) {
                        slot.file_is(None);
                    }
                }
            }
        }
        let absent = self.slots.keys().filter(|plugin| !seen.files.contains_key(*plugin));
        for plugin in absent.cloned().collect::<Vec<_>>() {
            self.remove(&plugin);
        }
    }

    fn remove(&mut self, plugin: &str) {
        let Some(mut slot) = self.slots.remove(plugin) else { return };
        if !slot.trial.left().is_empty() {
            self.options.kept.keep(plugin, Record::default(), None);
        }
        if let Some(running) = slot.running {
            running.close();
            self.output.news(plugin, LogLevel::Info, "stopped: its file is gone");
            self.leaving.retain_mut(|one| !one.has_ended());
            self.leaving.push(running);
        }
    }
}

/// The stems that different files claim, with what is wrong about that.
pub(super) fn disputes(disputed: &BTreeMap<String, Vec<PathBuf>>) -> BTreeMap<String, String> {
    let message = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        format!("{} have the same stem: keep one; what runs goes on", paths.join(" and "))
    };
    disputed.iter().map(|(plugin, paths)| (plugin.clone(), message(paths))).collect()
}

/// What is wrong in the folder, apart from what is wrong in the files.
fn complaints(seen: &Seen) -> Vec<(Grade, String)> {
    let disputed = disputes(&seen.disputed).into_iter();
    let disputed = disputed.map(|(plugin, message)| (Grade::Error, format!("{plugin}: {message}")));
    let unreadable = seen.unreadable.iter();
    let unreadable = unreadable
        .map(|(path, reason)| (Grade::Warning, format!("cannot read {path:?}: {reason}; what runs goes on")));
    let refused = seen.refused.iter();
    let refused = refused.map(|(path, reason)| (Grade::Warning, format!("{path:?}: {reason}")));
    let twins = seen.twins.iter();
    let twins = twins.map(|(path, first)| {
        (Grade::Remark, format!("{path:?} is {first:?} under another name: one plugin"))
    });
    disputed.chain(unreadable).chain(refused).chain(twins).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_once_and_not_if_it_passes_at_once() {
        let (start, text) = (Instant::now(), |text: &str| (Grade::Warning, text.to_owned()));
        let at = |ms| start + Duration::from_millis(ms);
        let mut complaints = Complaints::default();
        let mut said = |all: &[&str], ms| -> Vec<String> {
            complaints.are(all.iter().map(|complaint| text(complaint)).collect(), at(ms));
            complaints.take_due(at(ms)).into_iter().map(|(_, complaint)| complaint.clone()).collect()
        };
        let nothing = Vec::<String>::new();
        assert_eq!(said(&["lasts", "passes"], 0), nothing);
        assert_eq!(said(&["lasts"], 100), nothing);
        assert_eq!(said(&["lasts", "passes"], 399), nothing);
        assert_eq!(said(&["lasts", "passes"], 400), ["lasts"]);
        assert_eq!(said(&["lasts", "passes"], 799), ["passes"], "since it was back");
        assert_eq!(said(&["lasts", "passes"], 5000), nothing, "once");
        assert_eq!(said(&[], 6000), nothing);
        assert_eq!(said(&["lasts"], 7000), nothing);
        assert_eq!(said(&["lasts"], 7400), ["lasts"], "again after it was over");
        assert_eq!(complaints.due(), None);
    }

    #[test]
    fn what_is_wrong_is_graded_and_told_with_every_path() {
        let path = |name: &str| PathBuf::from(format!("p/{name}"));
        let seen = Seen {
            state: FolderState::Readable,
            disputed: BTreeMap::from([("a".into(), vec![path("a.wasm"), path("s/a.wasm")])]),
            refused: BTreeMap::from([(path("b\n.wasm"), "odd".into())]),
            twins: BTreeMap::from([(path("s/c.wasm"), path("c.wasm"))]),
            unreadable: BTreeMap::from([(path("t"), "no".into())]),
            ..Seen::default()
        };
        let want = [
            (Grade::Error, "a: p/a.wasm and p/s/a.wasm have the same stem: keep one; what runs goes on"),
            (Grade::Warning, "cannot read \"p/t\": no; what runs goes on"),
            (Grade::Warning, "\"p/b\\n.wasm\": odd"),
            (Grade::Remark, "\"p/s/c.wasm\" is \"p/c.wasm\" under another name: one plugin"),
        ];
        assert_eq!(complaints(&seen), want.map(|(grade, text)| (grade, text.to_owned())));
    }
}
