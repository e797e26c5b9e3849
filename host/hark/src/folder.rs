//! The plugins folder: which files are plugins, and when to look again.
//!
//! Used by the plugin manager. Looking is a scan of names and stamps, cheap enough to repeat; when to look is
//! said by the file system where it can (inotify), and by the clock in any case. Invariant: a folder that
//! cannot be read says nothing about the plugins in it, least of all that they are gone (design 4.12).

#[cfg(test)]
mod fuzz;

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

/// How often the folder is looked at although nothing was said to have changed: for file systems without
/// inotify, and for folders that come back.
const POLL: Duration = Duration::from_secs(1);

/// After how long the file system is asked again to say what changes, if it could not.
const WATCH_AGAIN: Duration = Duration::from_secs(60);

/// Longest plugin name; it appears in thread names, metrics and file names.
const MAX_STEM: usize = 64;

/// What tells one state of a file from another without reading it. The change time is part of it, so that a
/// file whose modification time was set back is seen to have changed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// When the system last saw its content, its name or its owner change. (Renaming sets it too.)
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        let (seconds, nanos) = (u64::try_from(self.changed.0).ok()?, u64::try_from(self.changed.1).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds) + Duration::from_nanos(nanos))
    }

    /// The file's present stamp; none if it is gone.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// A plugin's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
}

/// What a look at the folder found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Plugins by stem.
    pub(crate) files: BTreeMap<String, PluginFile>,
    /// Stems that two files claim, with both paths: neither is taken, and what runs goes on.
    pub(crate) disputed: BTreeMap<String, Vec<PathBuf>>,
    /// Files that look like plugins but cannot be: path and reason.
    pub(crate) refused: BTreeMap<PathBuf, String>,
}

/// Looks at the folder. `text` also takes `.wat` files.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn scan(folder: &Path, text: bool) -> std::io::Result<Scan> {
    let mut scan = Scan::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
        let Some(extension) = extension.filter(|_| !hidden) else { continue };
        if extension == "wasm" || (text && extension == "wat") {
            scan.look_at(path);
        } else if extension.eq_ignore_ascii_case("wasm") {
            scan.refused
                .insert(path, "a plugin's file name ends in .wasm, in lower case: rename it".to_owned());
        }
    }
    Ok(scan)
}

impl Scan {
    /// What is wrong in the folder, apart from what is wrong in the files.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let disputed = self.disputes().into_iter().map(|(plugin, message)| format!("{plugin}: {message}"));
        let refused = self.refused.iter().map(|(path, reason)| format!("{path:?}: {reason}"));
        disputed.chain(refused).collect()
    }

    /// The stems that two files claim, with what is wrong about that.
    pub(crate) fn disputes(&self) -> BTreeMap<String, String> {
        let message = |paths: &[PathBuf]| {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("{} have the same stem: keep one; what runs goes on", paths.join(" and "))
        };
        self.disputed.iter().map(|(plugin, paths)| (plugin.clone(), message(paths))).collect()
    }

    fn look_at(&mut self, path: PathBuf) {
        match (std::fs::metadata(&path), stem(&path)) {
            (Ok(metadata), Ok(stem)) if metadata.is_file() => {
                self.take(stem, PluginFile { path, stamp: Stamp::of(&metadata) });
            }
            (Ok(metadata), Err(reason)) if metadata.is_file() => {
                self.refused.insert(path, reason);
            }
            (Ok(_), _) => {
                self.refused.insert(path, "it is not a regular file".to_owned());
            }
            // A link that leads nowhere; a plain file that went away since is simply not there.
            (Err(error), _) if path.is_symlink() => {
                self.refused.insert(path, format!("the link cannot be followed: {error}"));
            }
            (Err(_), _) => {}
        }
    }

    fn take(&mut self, stem: String, file: PluginFile) {
        if let Some(paths) = self.disputed.get_mut(&stem) {
            paths.push(file.path);
        } else if let Some(other) = self.files.remove(&stem) {
            let mut paths = vec![other.path, file.path];
            paths.sort();
            self.disputed.insert(stem, paths);
        } else {
            self.files.insert(stem, file);
        }
    }
}

/// The plugin's name: letters, digits, `-`, `_` and `.`, starting with a letter or digit. Strict, because
/// settings and grants go by it.
fn stem(path: &Path) -> Result<String, String> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if stem.len() <= MAX_STEM
        && stem.starts_with(|c: char| c.is_ascii_alphanumeric())
        && stem.chars().all(fits)
    {
        return Ok(stem);
    }
    Err(format!(
        "a plugin's file name may have letters, digits, '-', '_' and '.', starts with a letter or digit, and is \
         at most {MAX_STEM} long: rename it"
    ))
}

/// Says when to look at a folder, or at a file.
pub(crate) struct ChangeWatch {
    target: PathBuf,
    watcher: Option<RecommendedWatcher>,
    /// Not to be tried before then.
    not_before: Option<Instant>,
    changed: watch::Receiver<()>,
    sender: watch::Sender<()>,
    poll: tokio::time::Interval,
}

impl ChangeWatch {
    /// A watch on `target`, which need not exist yet. The first look is due at once.
    pub(crate) fn new(target: PathBuf) -> Self {
        let (sender, changed) = watch::channel(());
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { target, watcher: None, not_before: None, changed, sender, poll }
    }

    /// Waits until it is time to look.
    pub(crate) async fn next(&mut self) {
        if self.watcher.is_none() {
            self.watch(Builder::new(), Instant::now());
        }
        let told = tokio::select! {
            // The sender is our own: it cannot be gone.
            _ = self.changed.changed() => true,
            _ = self.poll.tick() => false,
        };
        if !told && !self.target.exists() {
            // The kernel's watch goes with the folder; a new one begins when it is back.
            self.watcher = None;
        }
    }

    /// Asks the file system to say what changes, if there is a target, and it has not refused just now. `thread` is
    /// what a thread needs to be had for that.
    fn watch(&mut self, thread: Builder, now: Instant) {
        if !self.target.exists() || self.not_before.is_some_and(|time| now < time) {
            return;
        }
        match watcher(&self.target, thread, self.sender.clone()) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(why) => {
                let (target, seconds) = (self.target.display(), POLL.as_secs());
                tracing::debug!("{target}: looked at every {seconds} s only: {why}");
                self.not_before = Some(now + WATCH_AGAIN);
            }
        }
    }
}

/// A watcher of the file system's.
///
/// # Errors
/// Why there is none, for people.
fn watcher(target: &Path, thread: Builder, changed: watch::Sender<()>) -> Result<RecommendedWatcher, String> {
    // The library has a thread, and panics without one; so it is asked only if one is to be had.
    thread.spawn(|| ()).map_err(|error| format!("no thread to be had: {error}"))?;
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !is_only_reading(event.kind)) {
            changed.send_replace(());
        }
    });
    // Somebody else may have got that thread. Dropping the watcher then would panic once more, so it is left behind,
    // with its one descriptor.
    let mut watcher = ManuallyDrop::new(watcher.map_err(|error| error.to_string())?);
    let watched = catch_unwind(AssertUnwindSafe(|| watcher.watch(target, RecursiveMode::NonRecursive)));
    let watched = watched.map_err(|_| "no thread to be had".to_owned())?;
    let watcher = ManuallyDrop::into_inner(watcher);
    watched.map(|()| watcher).map_err(|error| error.to_string())
}

/// Our own scans open and read: such events must not cause the next scan.
fn is_only_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            std::fs::write(folder.path().join(file), file).expect("a file");
        }
        folder
    }

    #[test]
    fn only_wasm_files_are_plugins_and_text_only_where_allowed() {
        let folder = folder(&["a.wasm", "b.wat", "c.txt", ".d.wasm", "e.wasm.swp", "README"]);
        std::fs::create_dir(folder.path().join("f.wasm")).expect("a folder");
        let stems = |text| -> Vec<String> {
            scan(folder.path(), text).expect("readable").files.into_keys().collect()
        };
        assert_eq!(stems(false), ["a"]);
        assert_eq!(stems(true), ["a", "b"]);
        std::fs::write(folder.path().join("g.WASM"), "g").expect("a file");
        std::os::unix::fs::symlink("nowhere", folder.path().join("h.wasm")).expect("a link");
        let refused = scan(folder.path(), false).expect("readable").refused;
        let names: Vec<_> = refused.keys().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["f.wasm", "g.WASM", "h.wasm"], "each is said to be none, and why");
    }

    #[test]
    fn two_files_with_one_stem_are_disputed() {
        let folder = folder(&["a.wasm", "a.wat", "b.wasm"]);
        let scan = scan(folder.path(), true).expect("readable");
        assert_eq!(scan.files.keys().collect::<Vec<_>>(), ["b"]);
        let both = vec![folder.path().join("a.wasm"), folder.path().join("a.wat")];
        assert_eq!(scan.disputed, BTreeMap::from([("a".to_owned(), both)]));
    }

    #[test]
    fn odd_names_are_refused_with_the_reason() {
        let folder = folder(&["-x.wasm", "ä.wasm", "a b.wasm", "ok-1_2.3.wasm"]);
        let scan = scan(folder.path(), false).expect("readable");
        assert_eq!(scan.files.keys().collect::<Vec<_>>(), ["ok-1_2.3"]);
        assert_eq!(scan.refused.len(), 3);
    }

    #[test]
    fn a_changed_file_has_another_stamp_although_its_time_was_set_back() {
        let folder = folder(&["a.wasm"]);
        let path = folder.path().join("a.wasm");
        let before = Stamp::read(&path).expect("there");
        let time = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
        std::fs::write(&path, "b.wasm").expect("written");
        let file = std::fs::File::options().write(true).open(&path).expect("open");
        file.set_modified(time).expect("set");
        assert_ne!(Stamp::read(&path), Some(before));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(scan(Path::new("/nonexistent/plugins"), false).is_err());
    }

    #[tokio::test]
    async fn a_target_that_is_not_there_has_no_watcher_until_it_is() {
        let folder = folder(&[]);
        let target = folder.path().join("hark.toml");
        let mut watch = ChangeWatch::new(target.clone());
        watch.watch(Builder::new(), Instant::now());
        assert!(watch.watcher.is_none());
        std::fs::write(&target, "").expect("written");
        watch.watch(Builder::new(), Instant::now());
        assert!(watch.watcher.is_some());
    }

    #[tokio::test]
    async fn without_a_thread_the_clock_says_when_to_look_and_the_file_system_is_asked_again_later() {
        let folder = folder(&[]);
        let (mut watch, now) = (ChangeWatch::new(folder.path().to_owned()), Instant::now());
        // A stack beyond all address space: the system refuses.
        watch.watch(Builder::new().stack_size(1 << 50), now);
        assert!(watch.watcher.is_none());
        watch.next().await;
        watch.watch(Builder::new(), now + WATCH_AGAIN - Duration::from_millis(1));
        assert!(watch.watcher.is_none(), "it was refused just now");
        watch.watch(Builder::new(), now + WATCH_AGAIN);
        assert!(watch.watcher.is_some());
    }

    #[tokio::test]
    async fn a_write_says_that_it_is_time_to_look() {
        let folder = folder(&[]);
        let mut watch = ChangeWatch::new(folder.path().to_owned());
        watch.next().await;
        std::fs::write(folder.path().join("a.wasm"), "x").expect("written");
        watch.next().await;
        assert_eq!(scan(folder.path(), false).expect("readable").files.len(), 1);
    }
}
