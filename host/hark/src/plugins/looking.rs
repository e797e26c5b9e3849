//! The manager's look at the plugins folder: every slot is brought up to date with it.
//!
//! Invariants: each fault of the folder is reported once, and again only after it was gone; a plugin stops only when its
//! file has been gone for [`GRACE`] from a folder that could be read.

use std::collections::BTreeSet;
use std::time::Duration;

use hark_sandbox::LogLevel;
use tokio::time::Instant;

use super::Manager;
use super::view::FolderState;
use crate::folder::{self, Scan};

/// How long a file may be gone before its plugin stops, so that `rm` then `cp`, or an editor's way of saving,
/// is a change (design 4.12).
const GRACE: Duration = Duration::from_secs(2);

impl Manager {
    /// Looks at the folder and brings every slot up to date.
    pub(super) fn look(&mut self) {
        let mut complaints = BTreeSet::new();
        match folder::scan(&self.options.folder, self.options.allow_wat) {
            Ok(scan) => {
                self.folder_state = FolderState::Readable;
                self.disputed = scan.disputes();
                complaints.extend(scan.complaints());
                complaints.extend(self.tables_without_plugin(&scan));
                self.update_slots(scan);
                if self.slots.is_empty() {
                    complaints.insert(format!(
                        "no plugins in {} yet: copy a .wasm file there",
                        self.options.folder.display()
                    ));
                }
            }
            Err(error) => {
                self.folder_state = FolderState::Unreadable(error.to_string());
                let folder = self.options.folder.display();
                complaints.insert(format!("cannot read plugins folder {folder}: {error}; what runs goes on"));
            }
        }
        for complaint in complaints.difference(&self.complaints) {
            tracing::warn!("{complaint}");
        }
        self.complaints = complaints;
        self.prepare_changed();
    }

    /// A misspelt name would otherwise be a table that silently means nothing.
    fn tables_without_plugin(&self, scan: &Scan) -> Vec<String> {
        let (config, folder) = (self.config.path().display(), self.options.folder.display());
        let known = |name: &String| scan.files.contains_key(name) || scan.disputed.contains_key(name);
        let names = self.config.current().plugin_names().filter(|name| !known(name));
        names
            .map(|name| format!("{config} has [plugins.{name}], but there is no {name}.wasm in {folder}"))
            .collect()
    }

    fn update_slots(&mut self, scan: Scan) {
        let now = Instant::now();
        for (plugin, file) in &scan.files {
            self.slots.entry(plugin.clone()).or_default().file_is(file.clone(), now);
        }
        let present = |plugin: &String| scan.files.contains_key(plugin) || scan.disputed.contains_key(plugin);
        let absent: Vec<String> = self.slots.keys().filter(|plugin| !present(plugin)).cloned().collect();
        for plugin in absent {
            let Some(slot) = self.slots.get_mut(&plugin) else { continue };
            if slot.file_is_gone_for(GRACE, now) {
                self.remove(&plugin);
            }
        }
    }

    fn remove(&mut self, plugin: &str) {
        let Some(slot) = self.slots.remove(plugin) else { return };
        if let Some(running) = slot.running {
            running.close();
            self.output.news(plugin, LogLevel::Info, "stopped: its file is gone");
            self.leaving.retain_mut(|one| !one.has_ended());
            self.leaving.push(running);
        }
    }
}
