//! What a subscription sees of an object's history.
//!
//! Invariant: its positions are those of the history's states that are the subscription's, and of their ends, whatever it
//! listens for; so two subscriptions that are told of the same objects have the same positions.

use super::history::{Commit, Looks, Moment, Place};
use super::plan::{Part, Watch};

/// What happened to the object, for the subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It came to be the subscription's.
    Enter,
    /// It changed.
    Change,
    /// It ceased to be the subscription's.
    Leave,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What.
    pub what: What,
    /// When it was asked for.
    pub at: Moment,
    /// Of the object.
    pub uid: String,
    /// The state's version and looks, unless it left.
    pub state: Option<(u64, Looks)>,
    /// What it looked like before a change.
    pub before: Option<Looks>,
}

impl Seen {
    /// The state's version.
    pub fn version(&self) -> Option<u64> {
        self.state.map(|(version, _)| version)
    }

    /// Whether somebody who listens for these is not told: a change of something else.
    pub fn is_silent(&self, listens_for: &[Part]) -> bool {
        let value = |looks: &Looks, part: &Part| match part {
            Part::Text => looks.text,
            Part::More => looks.more,
        };
        match (self.what, &self.before, &self.state) {
            (What::Change, Some(old), Some((_, new))) => {
                !listens_for.is_empty() && listens_for.iter().all(|part| value(old, part) == value(new, part))
            }
            _ => false,
        }
    }
}

/// Whether objects of this place can be the subscription's.
pub fn is_in_reach(watch: &Watch, place: &Place) -> bool {
    let somewhere = watch.namespaces.is_empty() || watch.namespaces.contains(&place.namespace);
    watch.kind == place.kind && somewhere
}

/// What the subscription sees of these states of a place within its reach.
pub fn of(watch: &Watch, commits: &[Commit]) -> Vec<Seen> {
    let has = |looks: &Looks| (!watch.labelled || looks.labelled) && !(watch.unless_off && looks.off);
    let mut seen = Vec::new();
    let mut known: Option<Looks> = None;
    for commit in commits {
        let state = commit.state.filter(|(_, looks)| has(looks));
        let what = match (known, state) {
            (None, None) => continue,
            (None, Some(_)) => What::Enter,
            (Some(_), Some(_)) => What::Change,
            (Some(_), None) => What::Leave,
        };
        seen.push(Seen { what, at: commit.at, uid: commit.uid.clone(), state, before: known });
        known = state.map(|(_, looks)| looks);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::history::{Kind, Namespace};
    use super::*;

    fn watch() -> Watch {
        Watch {
            name: "one".into(),
            kind: Kind::ConfigMap,
            namespaces: vec![Namespace::A],
            labelled: true,
            unless_off: true,
            changed: vec![],
            fields: vec![],
            resync: 0,
        }
    }

    #[test]
    fn an_object_enters_changes_and_leaves_by_its_labels_and_its_end() {
        let looks = |labelled, off, text| Looks { labelled, off, text, more: 0 };
        let states = [
            Some(looks(false, false, 1)),
            Some(looks(true, false, 2)),
            Some(looks(true, false, 3)),
            Some(looks(true, true, 4)),
            Some(looks(true, false, 5)),
            Some(looks(true, false, 5)),
            None,
        ];
        let commit = |(at, state): (i64, &Option<Looks>)| Commit {
            at,
            uid: "u".into(),
            state: state.map(|looks| (at.unsigned_abs(), looks)),
        };
        let commits: Vec<Commit> = (1..).zip(&states).map(commit).collect();
        let seen = of(&watch(), &commits);
        let all: Vec<_> = seen.iter().map(|seen| (seen.at, seen.what)).collect();
        use What::{Change, Enter, Leave};
        assert_eq!(all, [(2, Enter), (3, Change), (4, Leave), (5, Enter), (6, Change), (7, Leave)]);
        let silent: Vec<_> = seen.iter().map(|seen| seen.is_silent(&[Part::Text])).collect();
        assert_eq!(silent, [false, false, false, false, true, false]);
        assert!(seen.iter().all(|seen| !seen.is_silent(&[])), "everything is a change to who names nothing");
        assert_eq!(of(&Watch { labelled: false, unless_off: false, ..watch() }, &commits).len(), 7);
    }

    #[test]
    fn reach_is_kind_and_namespace() {
        let place = Place { kind: Kind::ConfigMap, namespace: Namespace::A, name: "a".into() };
        assert!(is_in_reach(&watch(), &place));
        assert!(!is_in_reach(&watch(), &Place { kind: Kind::ServiceAccount, ..place.clone() }));
        let elsewhere = Place { namespace: Namespace::B, ..place };
        assert!(!is_in_reach(&watch(), &elsewhere));
        assert!(is_in_reach(&Watch { namespaces: vec![], ..watch() }, &elsewhere));
    }
}
