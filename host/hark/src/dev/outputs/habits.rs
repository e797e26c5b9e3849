//! What a run does to the sources, in a form in which runs can be compared.
//!
//! Used by [`super`]. A file that is written is told by its path. New files may have other names each time, and so may
//! those that go: they are told by each folder that they lie below, and how many there are, since one more than usual
//! may be somebody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::dev::snapshot::Changes;

/// Something that a run does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dev) enum Habit {
    /// It gives this file other content.
    Writes(PathBuf),
    /// It makes new files below this folder.
    Adds(PathBuf),
    /// It removes files below this folder.
    Removes(PathBuf),
}

/// All that a run did, and to how many files.
pub(super) type Deeds = BTreeMap<Habit, usize>;

/// What these changes say of the run that they came in.
pub(super) fn deeds(changes: &Changes) -> Deeds {
    let modified = changes.modified.iter().flat_map(|path| written(path));
    let added = changes.added.iter().flat_map(|path| added(path));
    let removed = changes.removed.iter().flat_map(|path| removed(path));
    let mut deeds = Deeds::new();
    for habit in modified.chain(added).chain(removed) {
        *deeds.entry(habit).or_default() += 1;
    }
    deeds
}

/// What of the changes nothing explains; `explains` is asked for each change until it says so, closest folder first.
pub(super) fn unexplained(changes: &Changes, mut explains: impl FnMut(&Habit) -> bool) -> Changes {
    let mut left = |paths: &BTreeSet<PathBuf>, reasons: fn(&Path) -> Vec<Habit>| {
        let is_left = |path: &&PathBuf| !reasons(path).iter().any(&mut explains);
        paths.iter().filter(is_left).cloned().collect()
    };
    Changes {
        modified: left(&changes.modified, written),
        added: left(&changes.added, added),
        removed: left(&changes.removed, removed),
    }
}

fn written(path: &Path) -> Vec<Habit> {
    vec![Habit::Writes(path.to_owned())]
}

fn added(path: &Path) -> Vec<Habit> {
    path.ancestors().skip(1).map(|folder| Habit::Adds(folder.to_owned())).collect()
}

fn removed(path: &Path) -> Vec<Habit> {
    path.ancestors().skip(1).map(|folder| Habit::Removes(folder.to_owned())).collect()
}
