//! notify's watcher, and what it tells, in our words.
//!
//! Used by the [`DirectoryWatcher`](super::DirectoryWatcher). notify has a thread, and panics at each use if it was not
//! given one, or if that has ended. Invariants: that is an error here like any other; what our own looks do, opening and
//! reading, is not told, else each would cause the next.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rustix::io::Errno;

use super::table::Table;
use super::{Change, Ear, News, Trouble};

/// See the file's head. None: its thread has ended.
pub(super) struct Inotify(Option<RecommendedWatcher>);

/// Why a directory is not watched.
#[derive(Debug)]
pub(super) enum Unwatched {
    /// There is none, or none any more.
    NotThere,
    /// notify's thread has ended.
    Dead,
    /// For people.
    Trouble(Trouble),
}

impl Inotify {
    /// Tells `ear`, and `table` before it. `thread` is one like the one that notify will want.
    pub(super) fn new(thread: Builder, table: Arc<Table>, ear: Ear) -> Result<Self, Trouble> {
        // notify does not say that there is no thread, so it is asked only if one is to be had; then somebody else may
        // have got that.
        thread.spawn(|| ()).map_err(|error| Trouble::NoThread(error.to_string()))?;
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            tell(&event, &mut |news| {
                match news {
                    News::Of(path, Change::Gone | Change::Arrived) => table.is_gone(path),
                    News::Of(..) => {}
                    News::Lost => table.all_gone(),
                }
                ear(news);
            });
        });
        let mut inotify = Self(Some(watcher.map_err(|error| Trouble::NoWatcher(error.to_string()))?));
        inotify.unwatch(Path::new("/nowhere"));
        match inotify.0 {
            Some(_) => Ok(inotify),
            None => Err(Trouble::NoThread("somebody else was faster".to_owned())),
        }
    }

    pub(super) fn watch(&mut self, directory: &Path) -> Result<(), Unwatched> {
        let watched = self.ask(|watcher| watcher.watch(directory, RecursiveMode::NonRecursive));
        let error = match watched {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => error,
            None => return Err(Unwatched::Dead),
        };
        Err(match &error.kind {
            ErrorKind::PathNotFound => Unwatched::NotThere,
            ErrorKind::Io(error)
                if matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR)) =>
            {
                Unwatched::NotThere
            }
            ErrorKind::MaxFilesWatch => Unwatched::Trouble(Trouble::NoWatches),
            _ => Unwatched::Trouble(Trouble::Refused(format!("{}: {error}", directory.display()))),
        })
    }

    /// What is not watched any more, or by a thread that has ended, need not be left.
    pub(super) fn unwatch(&mut self, directory: &Path) {
        let _ = self.ask(|watcher| watcher.unwatch(directory));
    }

    /// None if the thread has ended.
    fn ask<T>(&mut self, what: impl FnOnce(&mut RecommendedWatcher) -> T) -> Option<T> {
        let watcher = self.0.as_mut()?;
        let answer = catch_unwind(AssertUnwindSafe(|| what(watcher))).ok();
        if answer.is_none() {
            // Dropping it would panic once more, so it is left behind, with its one descriptor.
            std::mem::forget(self.0.take());
        }
        answer
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        let watcher = self.0.take();
        // It panics if its thread has ended without anybody's notice.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(watcher)));
    }
}

/// Says what an event means.
fn tell(event: &notify::Result<Event>, to: &mut dyn FnMut(News<'_>)) {
    let event = match event {
        Ok(event) if !event.need_rescan() => event,
        Ok(_) | Err(_) => return to(News::Lost),
    };
    let change = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Change::Closed,
        EventKind::Access(_) => return,
        // It repeats what is said of either name.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return,
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Change::Arrived,
        EventKind::Modify(ModifyKind::Name(_)) | EventKind::Remove(_) => Change::Gone,
        EventKind::Modify(ModifyKind::Data(_)) => Change::Written,
        _ => Change::Other,
    };
    for path in &event.paths {
        to(News::Of(path, change));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use notify::event::{CreateKind, DataChange, Flag, MetadataKind, RemoveKind};

    use super::*;

    fn told(event: notify::Result<Event>) -> Vec<Option<(PathBuf, Change)>> {
        let mut told = Vec::new();
        tell(&event, &mut |news| {
            told.push(match news {
                News::Of(path, change) => Some((path.to_owned(), change)),
                News::Lost => None,
            });
        });
        told
    }

    #[test]
    fn each_kind_of_event_has_one_meaning_and_reading_has_none() {
        let name = |mode| EventKind::Modify(ModifyKind::Name(mode));
        for (kind, change) in [
            (EventKind::Create(CreateKind::File), Some(Change::Other)),
            (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), Some(Change::Other)),
            (EventKind::Any, Some(Change::Other)),
            (EventKind::Modify(ModifyKind::Data(DataChange::Any)), Some(Change::Written)),
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), Some(Change::Closed)),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), None),
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), None),
            (name(RenameMode::To), Some(Change::Arrived)),
            (name(RenameMode::From), Some(Change::Gone)),
            (name(RenameMode::Both), None),
            (EventKind::Remove(RemoveKind::Folder), Some(Change::Gone)),
        ] {
            let want: Vec<_> = change.map(|change| Some(("/p/a".into(), change))).into_iter().collect();
            assert_eq!(told(Ok(Event::new(kind).add_path("/p/a".into()))), want, "{kind:?}");
        }
    }

    #[test]
    fn what_could_not_be_told_is_said() {
        assert_eq!(told(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))), [None]);
        assert_eq!(told(Err(notify::Error::generic("x"))), [None]);
    }
}
