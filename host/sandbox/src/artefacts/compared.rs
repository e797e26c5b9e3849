//! Entries that this process has compared with their seals, byte for byte, and how their files were then.
//!
//! Used when an entry is checked: one that is found again as it was need not be read again, which for a plugin with a whole
//! Python in it is 45 MB. Invariant: an entry is remembered only if every later change of its file shows in what is
//! remembered; what does not fit is forgotten, and read again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::key::Key;

/// How long two changes may have one and the same time: two ticks of the slowest kernel clock (100 Hz). Those of a file
/// system that counts in seconds are longer, so times without a fraction are believed of nothing.
const TICKS: Duration = Duration::from_millis(20);

/// Entries that are remembered at a time: several times as many as a process maps.
const MOST: usize = 4096;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Compared(Mutex<HashMap<Key, State>>);

/// A file at one moment. The system sets the time of the last change at each write, and nobody can set it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    /// As it is now.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether a change after `now` gives the file another state.
    pub(super) fn tells_of_changes_after(&self, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let since = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok().filter(|nanos| *nanos != 0));
        let changed =
            since.and_then(|(seconds, nanos)| UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)));
        changed.and_then(|changed| now.duration_since(changed).ok()).is_some_and(|ago| ago >= TICKS)
    }
}

impl Compared {
    /// Whether the entry in this state was compared with the seal of this key.
    pub(super) fn has(&self, key: &Key, state: &State) -> bool {
        let compared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        compared.get(key) == Some(state)
    }

    /// Remembers that it was, by somebody who began to read at `begun`, when the file had this state.
    pub(super) fn remember(&self, key: &Key, state: State, begun: SystemTime) {
        let mut compared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        compared.remove(key);
        if state.tells_of_changes_after(begun) {
            if compared.len() >= MOST {
                compared.clear();
            }
            compared.insert(*key, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Maker;
    use super::*;
    use crate::compiler::Compile;
    use crate::hash::ContentHash;

    /// A state of this time.
    fn at(changed: (i64, i64)) -> State {
        State { device: 1, inode: 1, size: 1, modified: (0, 0), changed }
    }

    /// So many milliseconds after second 1000.
    fn clock(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_state_tells_of_changes_only_if_its_own_time_is_past() {
        let state = at((1000, 5_000_000));
        for (millis, tells) in [(0, false), (5, false), (24, false), (25, true), (5000, true)] {
            assert_eq!(state.tells_of_changes_after(clock(millis)), tells, "{millis}");
        }
        assert!(!at((1000, 0)).tells_of_changes_after(clock(60_000)), "a clock of whole seconds");
        assert!(!at((-1, 5)).tells_of_changes_after(clock(0)), "before 1970");
    }

    #[test]
    fn only_the_last_state_of_an_entry_counts_and_none_that_may_hide_a_change() {
        let maker = Maker::of(&wasmtime::Engine::default());
        let key = |content: u16| Key::new(ContentHash::of(&content.to_le_bytes()), Compile::Fast, maker);
        let (compared, old, new) = (Compared::default(), at((1000, 1)), at((1000, 50_000_000)));
        compared.remember(&key(0), old, clock(40));
        assert!(compared.has(&key(0), &old) && !compared.has(&key(1), &old) && !compared.has(&key(0), &new));
        compared.remember(&key(0), new, clock(60));
        assert!(!compared.has(&key(0), &new) && !compared.has(&key(0), &old));
        for content in 0..2 * u16::try_from(MOST).expect("small") {
            compared.remember(&key(content), old, clock(40));
            assert!(compared.has(&key(content), &old));
        }
        assert!(compared.0.lock().expect("whole").len() <= MOST);
    }
}
