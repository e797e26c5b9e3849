//! Which of the changed files are a build's own outputs, although nobody has ignored them.
//!
//! Used by [`super::builder`]. Nothing tells who wrote a file; what can be seen is when it changed. A file that appears
//! while the build runs, or changes in two of its runs and has never changed while none was, is taken for its own: it does
//! not outdate the run, and is looked at when it is over. So a build that writes the same each time comes to rest after
//! one more. One that writes something else each time (a time of day) would go on for ever: what changed in each of
//! [`IN_A_ROW`] runs that nothing else had started does not count any more. A change while nothing runs is somebody
//! else's in any case, and forgets all that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::snapshot::Changes;

/// Runs that only the outputs of the run before had started, until they are known for what they are.
const IN_A_ROW: usize = 3;

/// In how many runs a file that was there must have changed to be taken for an output.
const RUNS: u8 = 2;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// In how many runs a file has changed since it last changed while none was.
    runs: BTreeMap<PathBuf, u8>,
    /// What has ever changed while none was: somebody writes it, whatever the build does.
    others: BTreeSet<PathBuf>,
    /// These start nothing, if they change while the build runs.
    known: BTreeSet<PathBuf>,
    /// What appears in these while the build runs starts nothing either: its outputs have new names each time.
    folders: BTreeSet<PathBuf>,
    /// What was written by the last runs that only outputs had started.
    chain: Vec<Changes>,
}

/// What is to be done about the changes that came while a build ran.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Rest,
    /// The build is run again: they are more than it started with.
    Again(Changes),
    /// These, and what appears in these folders, are outputs that differ each time: they do not count from now on.
    /// If more has changed, the build is run again.
    Learned { files: BTreeSet<PathBuf>, folders: BTreeSet<PathBuf>, again: Changes },
}

impl Outputs {
    /// Changes while nothing runs: these are somebody else's.
    pub(super) fn changed_at_rest(&mut self, changes: &Changes) {
        for path in changes.paths() {
            self.runs.remove(path);
            self.known.remove(path);
            self.others.insert(path.clone());
        }
        self.chain.clear();
    }

    /// What of the changes that came while the build runs makes it outdated.
    pub(super) fn outdates(&self, changes: &Changes) -> Changes {
        let often = |path: &PathBuf| self.runs.get(path).is_some_and(|runs| *runs >= RUNS);
        let is_own = |path: &PathBuf| self.is_known(path) || (often(path) && !self.others.contains(path));
        Changes { modified: changes.only(|path| !is_own(path)).modified, ..Changes::default() }
    }

    /// The run was ended before its time; these changed meanwhile.
    pub(super) fn ended_early(&mut self, changes: &Changes) {
        self.count(changes);
        self.chain.clear();
    }

    /// The run is over; these changed meanwhile. `own`: outputs of the run before were all that had started it.
    pub(super) fn done(&mut self, changes: &Changes, own: bool) -> Verdict {
        self.count(changes);
        for path in &changes.added {
            if path.parent().is_some_and(|folder| self.folders.contains(folder)) {
                self.known.insert(path.clone());
            }
        }
        let changes = changes.only(|path| !self.is_known(path));
        if !own {
            self.chain.clear();
        }
        if changes.is_empty() {
            self.chain.clear();
            return Verdict::Rest;
        }
        if own {
            self.chain.push(changes.clone());
        }
        if self.chain.len() < IN_A_ROW { Verdict::Again(changes) } else { self.learn(&changes) }
    }

    /// What the runs of the chain have in common is an output; `last` is what the last of them wrote.
    fn learn(&mut self, last: &Changes) -> Verdict {
        let chain = std::mem::take(&mut self.chain);
        let in_all = |path: &PathBuf| chain.iter().all(|changes| changes.paths().any(|other| other == path));
        let files: BTreeSet<PathBuf> = last.paths().filter(|path| in_all(path)).cloned().collect();
        let again = last.only(|path| !files.contains(path));
        let appears = |folder: &Path| {
            chain.iter().all(|changes| changes.added.iter().any(|path| path.parent() == Some(folder)))
        };
        let parents = again.added.iter().filter_map(|path| path.parent());
        let folders: BTreeSet<PathBuf> =
            parents.filter(|folder| appears(folder)).map(Path::to_owned).collect();
        let again = again.only(|path| {
            let is_new = last.added.contains(path);
            !(is_new && path.parent().is_some_and(|folder| folders.contains(folder)))
        });
        self.known.extend(files.iter().cloned());
        self.known.extend(last.added.iter().filter(|path| !again.added.contains(*path)).cloned());
        self.folders.extend(folders.iter().cloned());
        Verdict::Learned { files, folders, again }
    }

    fn count(&mut self, changes: &Changes) {
        // What appears is an output at once.
        for path in &changes.added {
            self.runs.insert(path.clone(), RUNS);
        }
        for path in changes.modified.iter().chain(&changes.removed) {
            let runs = self.runs.entry(path.clone()).or_default();
            *runs = runs.saturating_add(1);
        }
    }

    fn is_known(&self, path: &PathBuf) -> bool {
        self.known.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn changes(added: &[&str], modified: &[&str]) -> Changes {
        Changes { added: paths(added), modified: paths(modified), removed: BTreeSet::new() }
    }

    #[test]
    fn outputs_that_are_the_same_each_time_start_one_more_build() {
        let mut outputs = Outputs::default();
        let first = changes(&["gen.rs", "a.o"], &[]);
        assert_eq!(outputs.done(&first, false), Verdict::Again(first));
        assert_eq!(outputs.done(&Changes::default(), true), Verdict::Rest);
        // After an edit, the outputs change while it runs, and do not outdate it; the source itself does.
        outputs.changed_at_rest(&changes(&[], &["a.c"]));
        let during = changes(&[], &["a.o", "a.c"]);
        assert_eq!(outputs.outdates(&during), changes(&[], &["a.c"]));
    }

    #[test]
    fn a_file_that_was_there_outdates_two_runs_or_all_if_it_has_ever_changed_at_rest() {
        let mut outputs = Outputs::default();
        let written = changes(&[], &["gen.rs"]);
        for _ in 0..2 {
            assert_eq!(outputs.outdates(&written), written);
            outputs.ended_early(&written);
        }
        assert!(outputs.outdates(&written).is_empty());
        outputs.changed_at_rest(&written);
        for _ in 0..10 {
            assert_eq!(outputs.outdates(&written), written, "somebody else writes it");
            outputs.ended_early(&written);
        }
    }

    #[test]
    fn outputs_that_differ_each_time_are_known_after_three_builds_that_nothing_else_had_started() {
        let mut outputs = Outputs::default();
        let stamp = changes(&[], &["stamp.txt"]);
        assert_eq!(
            outputs.done(&changes(&["stamp.txt"], &[]), false),
            Verdict::Again(changes(&["stamp.txt"], &[]))
        );
        assert_eq!(outputs.done(&stamp, true), Verdict::Again(stamp.clone()));
        // Another file that changed once, by chance, is none.
        let more = changes(&[], &["stamp.txt", "a.c"]);
        assert_eq!(outputs.done(&more, true), Verdict::Again(more.clone()));
        let learned = Verdict::Learned {
            files: paths(&["stamp.txt"]),
            folders: BTreeSet::new(),
            again: Changes::default(),
        };
        assert_eq!(outputs.done(&stamp, true), learned);
        assert_eq!(outputs.done(&stamp, false), Verdict::Rest, "from now on");
        assert_eq!(outputs.done(&more, false), Verdict::Again(changes(&[], &["a.c"])));
        outputs.changed_at_rest(&stamp);
        assert_eq!(outputs.done(&stamp, false), Verdict::Again(stamp), "somebody has written it: forgotten");
    }

    #[test]
    fn a_change_of_somebody_else_in_between_begins_the_count_again() {
        let mut outputs = Outputs::default();
        let stamp = changes(&[], &["stamp.txt"]);
        for _ in 0..10 {
            for own in [false, true, true] {
                assert_eq!(outputs.done(&stamp, own), Verdict::Again(stamp.clone()));
            }
            outputs.changed_at_rest(&changes(&[], &["a.c"]));
        }
    }

    #[test]
    fn outputs_with_a_new_name_each_time_are_known_by_their_folder() {
        let mut outputs = Outputs::default();
        let named = |run: u32| changes(&[&format!("out/app-{run}.js")], &[]);
        assert_eq!(outputs.done(&named(0), false), Verdict::Again(named(0)));
        assert_eq!(outputs.done(&named(1), true), Verdict::Again(named(1)));
        assert_eq!(outputs.done(&named(2), true), Verdict::Again(named(2)));
        let learned =
            Verdict::Learned { files: BTreeSet::new(), folders: paths(&["out"]), again: Changes::default() };
        assert_eq!(outputs.done(&named(3), true), learned);
        assert_eq!(outputs.done(&named(4), false), Verdict::Rest);
        // What was there before it began to differ is a source as ever.
        assert_eq!(
            outputs.done(&changes(&[], &["out/index.html"]), false),
            Verdict::Again(changes(&[], &["out/index.html"]))
        );
    }
}
