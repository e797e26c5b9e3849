//! The operator's file, with a table for each plugin that is treated in another way than is usual.
//!
//! Invariant: one at a time changes it, and what it says is what was written last.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;

/// How a plugin is treated; by default as is usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Treatment {
    /// `on_reload` is `replay`, or `continue`, if it is there.
    pub replays: Option<bool>,
    /// `concurrency`.
    pub concurrency: Option<u32>,
    /// `delivery` is `latest`.
    pub latest: bool,
    /// `limits.queue`.
    pub queue: Option<u32>,
    /// `rollback_after`, if `rollback` is true.
    pub rollback: Option<u32>,
    /// A setting that nobody reads. What runs is known by it too: see [`Treatment::log_lines`].
    pub setting: u32,
}

/// See the file's head.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    tables: BTreeMap<String, Treatment>,
}

impl Treatment {
    /// Whether waiting events may be merged.
    pub fn merges(&self) -> bool {
        self.latest || self.queue.is_some()
    }

    /// `limits.log_lines`: far more than any build says, and another number with each setting.
    pub fn log_lines(&self) -> u32 {
        1000 + self.setting
    }

    fn table(&self, plugin: &str) -> String {
        let mut lines = vec![format!("[plugins.{plugin}]")];
        let on_reload = self.replays.map(|replays| if replays { "replay" } else { "continue" });
        lines.extend(on_reload.map(|on_reload| format!("on_reload = \"{on_reload}\"")));
        lines.extend(self.concurrency.map(|count| format!("concurrency = {count}")));
        lines.extend(self.latest.then(|| "delivery = \"latest\"".to_owned()));
        lines.extend(self.rollback.map(|after| format!("rollback = true\nrollback_after = {after}")));
        let queue = self.queue.map(|bound| format!("queue = {bound}, ")).unwrap_or_default();
        lines.push(format!("limits = {{ {queue}log_lines = {} }}", self.log_lines()));
        if self.setting > 0 {
            lines.push(format!("settings = {{ number = {} }}", self.setting));
        }
        lines.join("\n") + "\n"
    }
}

impl ConfigFile {
    /// The file that Hark reads, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, tables: BTreeMap::new() }
    }

    /// Writes how a plugin is treated.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, plugin: &str, treatment: Treatment, at_once: bool) -> Result<()> {
        self.tables.insert(plugin.to_owned(), treatment);
        self.save(&self.text(), at_once)
    }

    /// Writes something that is wrong at its end.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn spoil(&self, fault: &str) -> Result<()> {
        self.save(&format!("{}{fault}\n", self.text()), false)
    }

    /// Writes what was there before it was spoilt.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn mend(&self) -> Result<()> {
        self.save(&self.text(), true)
    }

    fn text(&self) -> String {
        let usual = |treatment: &Treatment| *treatment == Treatment::default();
        let tables = self.tables.iter().filter(|(_, treatment)| !usual(treatment));
        tables.fold(String::new(), |mut text, (plugin, treatment)| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{}", treatment.table(plugin));
            text
        })
    }

    /// Over the file by renaming, or into it.
    fn save(&self, text: &str, at_once: bool) -> Result<()> {
        if !at_once {
            return Ok(std::fs::write(&self.path, text)?);
        }
        let beside = self.path.with_extension("new");
        std::fs::write(&beside, text)?;
        Ok(std::fs::rename(beside, &self.path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plugin_has_its_table_and_what_is_usual_has_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hark.toml");
        let mut file = ConfigFile::new(path.clone());
        let all = Treatment {
            replays: Some(false),
            concurrency: Some(2),
            latest: true,
            queue: Some(9),
            rollback: Some(3),
            setting: 4,
        };
        file.write("one", all, true).expect("written");
        let text = "[plugins.one]\non_reload = \"continue\"\nconcurrency = 2\ndelivery = \"latest\"\n\
            rollback = true\nrollback_after = 3\nlimits = { queue = 9, log_lines = 1004 }\nsettings = { number = 4 }\n\n";
        let read = || std::fs::read_to_string(&path).expect("a file");
        assert_eq!(read(), text);
        file.spoil("nonsense = ").expect("written");
        assert_eq!(read(), format!("{text}nonsense = \n"));
        file.mend().expect("written");
        file.write("two", Treatment::default(), false).expect("written");
        assert_eq!(read(), text);
        assert!(all.merges() && !Treatment::default().merges());
    }
}
