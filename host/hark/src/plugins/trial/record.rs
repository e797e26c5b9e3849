//! What is written down of a plugin's versions, for the host that comes after this one.
//!
//! A part of the trial. Invariant: each change is written down once; nothing is written of a plugin of which nothing has run
//! in this host.

use super::{Standing, Trial};
use crate::kept::Record;

impl Trial {
    /// What the next one is to know who takes care of the plugin, should this one be lost.
    pub(in crate::plugins) fn left(&mut self) -> Record {
        self.news();
        self.written.take().unwrap_or_default()
    }

    /// What is to be written down, if that has changed.
    pub(in crate::plugins) fn news(&mut self) -> Option<Record> {
        let record = match (&self.standing, self.on) {
            // What the host before left stays until something else is known.
            (Standing::Fresh(_), _) => return None,
            (_, false) => Record::default(),
            (standing, true) => Record {
                good: self.good(),
                candidate: match standing {
                    Standing::OnTrial { content, .. } => Some(*content),
                    _ => None,
                },
                rolled_back: self.rolled_back.clone(),
            },
        };
        if self.written.as_ref() == Some(&record) {
            return None;
        }
        self.written = Some(record.clone());
        Some(record)
    }
}
