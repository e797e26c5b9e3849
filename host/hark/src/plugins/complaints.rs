//! What is wrong in the plugins folder, or odd, and when that is said.
//!
//! Made of what the looks found. Invariants: each fault is reported once, and again only after it was gone; that something
//! can be read that could not is said too; what holds for a moment only is no fault (a folder or link that is being replaced
//! in two steps, as kubelet and `mv` do it).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::folder::Seen;

/// How long something must have been wrong before that is said.
const LASTING: Duration = Duration::from_millis(400);

/// What is wrong now; each is said once, when it has held for [`LASTING`].
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// Each, with when it is to be said; none if it was.
    due: BTreeMap<Complaint, Option<Instant>>,
    /// What is to be said when those are over that were said.
    open: BTreeSet<String>,
}

/// Something wrong, or odd.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Complaint {
    grade: Grade,
    text: String,
    /// What is said when it is over, if that does not show otherwise. The same for all that is wrong with one thing.
    over: Option<String>,
}

impl Complaint {
    /// Of which nothing is said when it is over.
    pub(super) fn new(grade: Grade, text: String) -> Self {
        Self { grade, text, over: None }
    }

    /// That something cannot be read; `over` is said when it can be again.
    pub(super) fn unreadable(text: String, over: String) -> Self {
        Self { grade: Grade::Warning, text, over: Some(over) }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Error,
    Warning,
    Remark,
}

impl Complaints {
    /// Takes in all that is wrong now, and forgets what is not any more: gives what is to be said of that.
    pub(super) fn are(&mut self, all: BTreeSet<Complaint>, now: Instant) -> Vec<String> {
        let still: BTreeSet<&String> = all.iter().filter_map(|complaint| complaint.over.as_ref()).collect();
        let over: Vec<String> = self.open.iter().filter(|over| !still.contains(over)).cloned().collect();
        self.open.retain(|over| still.contains(over));
        self.due.retain(|complaint, _| all.contains(complaint));
        for complaint in all {
            self.due.entry(complaint).or_insert(Some(now + LASTING));
        }
        over
    }

    /// When there is something to say.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.values().flatten().min().copied()
    }

    /// Says what is due.
    pub(super) fn say(&mut self, now: Instant) {
        for Complaint { grade, text, .. } in self.take_due(now) {
            match grade {
                Grade::Error => tracing::error!("{text}"),
                Grade::Warning => tracing::warn!("{text}"),
                Grade::Remark => tracing::info!("{text}"),
            }
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Complaint> {
        let mut said = Vec::new();
        for (complaint, due) in &mut self.due {
            if due.take_if(|due| *due <= now).is_some() {
                self.open.extend(complaint.over.clone());
                said.push(complaint.clone());
            }
        }
        said
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
pub(super) fn complaints(seen: &Seen) -> BTreeSet<Complaint> {
    let disputed = disputes(&seen.disputed).into_iter();
    let disputed = disputed.map(|(plugin, message)| Complaint {
        grade: Grade::Error,
        text: format!("{plugin}: {message}"),
        over: Some(format!("{plugin}: no other file has its stem any more")),
    });
    let unreadable = seen.unreadable.iter();
    let unreadable = unreadable.map(|(path, reason)| {
        let over = format!("{path:?} can be read now, or is gone");
        Complaint::unreadable(format!("cannot read {path:?}: {reason}; what runs goes on"), over)
    });
    let refused = seen.refused.iter();
    let refused = refused.map(|(path, reason)| Complaint::new(Grade::Warning, format!("{path:?}: {reason}")));
    let twins = seen.twins.iter();
    let twins = twins.map(|(path, first)| {
        Complaint::new(Grade::Remark, format!("{path:?} is {first:?} under another name: one plugin"))
    });
    disputed.chain(unreadable).chain(refused).chain(twins).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::FolderState;

    #[test]
    fn what_is_wrong_is_said_once_and_not_if_it_passes_at_once() {
        let (start, text) = (Instant::now(), |text: &str| Complaint::new(Grade::Warning, text.to_owned()));
        let at = |ms| start + Duration::from_millis(ms);
        let mut complaints = Complaints::default();
        let mut said = |all: &[&str], ms| -> Vec<String> {
            complaints.are(all.iter().map(|complaint| text(complaint)).collect(), at(ms));
            complaints.take_due(at(ms)).into_iter().map(|complaint| complaint.text).collect()
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
            (Grade::Warning, "\"p/b\\n.wasm\": odd"),
            (Grade::Warning, "cannot read \"p/t\": no; what runs goes on"),
            (Grade::Remark, "\"p/s/c.wasm\" is \"p/c.wasm\" under another name: one plugin"),
        ];
        let all = complaints(&seen);
        let told: Vec<_> = all.iter().map(|complaint| (complaint.grade, complaint.text.as_str())).collect();
        assert_eq!(told, want);
        let over: Vec<_> = all.iter().filter_map(|complaint| complaint.over.as_deref()).collect();
        assert_eq!(over, ["a: no other file has its stem any more", "\"p/t\" can be read now, or is gone"]);
    }

    #[test]
    fn that_something_can_be_read_again_is_said_once_if_it_was_said_that_it_could_not() {
        let start = Instant::now();
        let mut complaints = Complaints::default();
        let mut over = |wrong: &[&str], ms| -> Vec<String> {
            let all = wrong.iter().map(|text| Complaint::unreadable((*text).into(), "over".into())).collect();
            let now = start + Duration::from_millis(ms);
            let over = complaints.are(all, now);
            complaints.take_due(now);
            over
        };
        let nothing = Vec::<String>::new();
        assert_eq!(over(&["no"], 0), nothing);
        assert_eq!(over(&[], 399), nothing, "nobody heard of it");
        assert_eq!(over(&["no"], 1000), nothing);
        assert_eq!(over(&["no"], 1400), nothing, "said");
        assert_eq!(over(&["no, for another reason"], 2000), nothing, "it goes on");
        assert_eq!(over(&[], 2100), ["over"]);
        assert_eq!(over(&[], 3000), nothing, "once");
    }
}
