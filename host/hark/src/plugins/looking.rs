//! What the looks found, brought into every slot.
//!
//! Used by the manager. Invariant: a plugin stops only when the looks say that its file is gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use hark_sandbox::LogLevel;
use tokio::time::Instant;

use super::Manager;
use super::complaints::{Complaint, Grade, complaints};
use super::slot::Slot;
use super::trial::Trial;
use crate::folder::{FolderState, Seen, Standing, Way};
use crate::kept::Record;

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
        let folder = self.options.folder.display();
        // Of one that cannot be read, what lies in it is as it was.
        let mut all = complaints(&seen);
        match &seen.state {
            FolderState::Unseen => return,
            FolderState::Unreadable(error) => {
                let so = if self.slots.is_empty() { "it is waited for" } else { "what runs goes on" };
                let complaint = format!("cannot read plugins folder {folder}: {error}; {so}");
                let over = format!("plugins folder {folder} can be read now");
                all.insert(Complaint::unreadable(complaint, over));
            }
            FolderState::Readable => {
                if self.slots.is_empty() && seen.files.is_empty() {
                    let complaint = format!("no plugins in {folder} yet: copy a .wasm file there");
                    all.insert(Complaint::new(Grade::Warning, complaint));
                }
                all.extend(self.tables_without_plugin(&seen));
            }
        }
        if seen.way != Way::Events {
            all.insert(Complaint::new(Grade::Remark, format!("plugins folder {folder}: {}", seen.way)));
        }
        for over in self.complaints.are(all, Instant::now()) {
            tracing::info!("{over}");
        }
    }

    /// A misspelt name would otherwise be a table that silently means nothing.
    fn tables_without_plugin(&self, seen: &Seen) -> BTreeSet<Complaint> {
        let (config, folder) = (self.config.path().display(), self.options.folder.display());
        let known = |name: &String| seen.files.contains_key(name) || seen.disputed.contains_key(name);
        let names = self.config.current().plugin_names().filter(|name| !known(name));
        let text = |name| format!("{config} has [plugins.{name}], but there is no {name}.wasm in {folder}");
        names.map(|name| Complaint::new(Grade::Warning, text(name))).collect()
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
