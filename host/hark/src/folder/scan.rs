//! What lies in the plugins folder: which files are plugins, which only look like it, and what cannot be looked at.
//!
//! Used by the looker. Plugins lie in the folder itself, or in a sub-folder of it. Invariants: one file is one plugin,
//! whatever names it has; what cannot be read (the folder, a sub-folder, a file) is as it was when it last could be
//! (design 4.12).

mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use self::listing::{Found, Listing};
use super::hops::{Hops, hops};
use super::mount;
use super::stamp::{Stamp, identity};
use super::told::Interests;

/// Longest plugin name; it appears in thread names, metrics and file names.
pub(super) const MAX_STEM: usize = 64;

/// What a folder of things that can be made anew has in it, and how that begins: <https://bford.info/cachedir/>.
const CACHE_TAG: (&str, &[u8]) = ("CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55");

/// What to look at.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Take `.wat` files too.
    pub(crate) text: bool,
    /// Folders of the host's own, which may lie in it: there are no plugins in them.
    pub(crate) own: Vec<PathBuf>,
}

/// A plugin's file as a look found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plugin {
    pub(super) path: PathBuf,
    /// The same without links.
    pub(super) real: PathBuf,
    pub(super) stamp: Stamp,
    /// When the file changed, or a link on the way to it if that was later.
    pub(super) changed: Option<SystemTime>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Plugins by stem.
    pub(super) plugins: BTreeMap<String, Plugin>,
    /// Stems that different files claim, with their paths: none is taken, and what runs goes on.
    pub(super) disputed: BTreeMap<String, Vec<PathBuf>>,
    /// Files that look like plugins but cannot be: path and reason.
    pub(super) refused: BTreeMap<PathBuf, String>,
    /// Further names of files that are plugins, with the name that counts.
    pub(super) twins: BTreeMap<PathBuf, PathBuf>,
    /// Sub-folders and files that cannot be looked at now: path and reason.
    pub(super) unreadable: BTreeMap<PathBuf, String>,
    /// Which names a change of what lies here goes by.
    pub(super) interests: Interests,
    /// What each folder had in it, for the next look.
    listings: BTreeMap<PathBuf, Listing>,
}

/// The way to the folder itself.
pub(super) fn way_to(folder: &Path) -> Hops {
    match std::path::absolute(folder) {
        Ok(folder) => hops(Path::new("/"), &folder),
        // There is no current folder any more.
        Err(_) => Hops::default(),
    }
}

/// The names by which a folder that cannot be read may become one that can.
pub(super) fn interests_of_unreadable(folder: &Path) -> Interests {
    let way = way_to(folder);
    let mut interests = Interests::new();
    note(&mut interests, &way);
    if let Some(real) = &way.end {
        watch_all(&mut interests, real);
        if let (Some(parent), Some(name)) = (real.parent(), real.file_name()) {
            interests.entry(parent.to_owned()).or_default().names.insert(name.to_owned());
        }
    }
    interests
}

/// The names that a way goes by.
pub(super) fn note(interests: &mut Interests, way: &Hops) {
    for (directory, name) in &way.names {
        interests.entry(directory.clone()).or_default().names.insert(name.clone());
    }
}

fn watch_all(interests: &mut Interests, real: &Path) {
    interests.entry(real.to_owned()).or_default().all = true;
}

/// Looks at the folder. `before` is the last look that could be had.
///
/// # Errors
/// If the folder cannot be read, or its mount is gone.
pub(super) fn scan(place: &Place, before: Option<&Scan>) -> io::Result<Scan> {
    let way = way_to(&place.folder);
    let real = way.end.clone().unwrap_or_else(|| place.folder.clone());
    let mut scan = Scan::default();
    note(&mut scan.interests, &way);
    watch_all(&mut scan.interests, &real);
    let mut top = Listing::read(&place.folder, &real, place.text, before)?;
    top.is_reached_over(way.changed);
    let folders = scan.folders_in(place, &top, &real);
    let mount = top.mount;
    scan.listings.insert(place.folder.clone(), top);
    for (folder, real_below) in folders {
        let is_link = real_below.parent() != Some(&*real) || real_below.file_name() != folder.file_name();
        let changed = if is_link { way_to(&folder).changed } else { way.changed };
        scan.list_below(place, folder.clone(), real_below, before);
        if let Some(listing) = scan.listings.get_mut(&folder) {
            listing.is_reached_over(changed);
        }
    }
    if let Some(before) = before {
        let mount_before = before.listings.get(&place.folder).and_then(|listing| listing.mount);
        if mount::has_gone(mount_before, mount, before.count(), scan.count()) {
            return Err(io::Error::other(MOUNT_IS_GONE));
        }
    }
    scan.take_all(&place.folder, before);
    Ok(scan)
}

/// Why what lies on a mount cannot be looked at.
const MOUNT_IS_GONE: &str = "what was mounted there is not any more";

impl Scan {
    /// Files that may be plugins.
    fn count(&self) -> usize {
        self.listings.values().map(|listing| listing.found.len()).sum()
    }

    /// The sub-folders that may have plugins in them, with their paths without links.
    fn folders_in(&mut self, place: &Place, top: &Listing, real: &Path) -> Vec<(PathBuf, PathBuf)> {
        if top.folders.is_empty() {
            return Vec::new();
        }
        // Each is looked into once, and our own not at all.
        let known = place.own.iter().map(PathBuf::as_path).chain([real]);
        let mut known: BTreeSet<(u64, u64)> = known.filter_map(identity).collect();
        let mut folders = top.folders.clone();
        folders.sort();
        folders.retain(|(path, _)| identity(path).is_none_or(|it| known.insert(it)) && !is_cache(path));
        folders
    }

    /// Looks into a sub-folder. One that cannot be read has in it what it had.
    fn list_below(&mut self, place: &Place, folder: PathBuf, real: PathBuf, before: Option<&Scan>) {
        let had = before.and_then(|before| before.listings.get(&folder));
        let listing = match Listing::read(&folder, &real, place.text, before) {
            Ok(now) => {
                let had_mount = had.and_then(|had| had.mount);
                let count = had.map_or(0, |had| had.found.len());
                if mount::has_gone(had_mount, now.mount, count, now.found.len()) {
                    self.unreadable.insert(folder.clone(), MOUNT_IS_GONE.to_owned());
                    had.cloned()
                } else {
                    Some(now)
                }
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.unreadable.insert(folder.clone(), error.to_string());
                had.cloned()
            }
            Err(_) if had.is_some_and(|had| mount::is_missing(had.mount, &real)) => {
                self.unreadable.insert(folder.clone(), MOUNT_IS_GONE.to_owned());
                had.cloned()
            }
            Err(_) => None,
        };
        watch_all(&mut self.interests, &real);
        if let Some(listing) = listing {
            self.listings.insert(folder, listing);
        }
    }

    /// Decides what is a plugin.
    fn take_all(&mut self, folder: &Path, before: Option<&Self>) {
        let listings = std::mem::take(&mut self.listings);
        let mut names: BTreeMap<(u64, u64), Vec<&Found>> = BTreeMap::new();
        for listing in listings.values() {
            self.refused.extend(listing.refused.clone());
            self.unreadable.extend(listing.unreadable.clone());
            for way in &listing.ways {
                note(&mut self.interests, way);
            }
            for found in &listing.found {
                names.entry(found.stamp.identity()).or_default().push(found);
            }
        }
        let mut claims: BTreeMap<&str, Vec<&Found>> = BTreeMap::new();
        for files in names.values() {
            let Some(first) = the_one_that_counts(files, folder, before) else { continue };
            claims.entry(&first.stem).or_default().push(first);
            let others = files.iter().filter(|found| found.path != first.path);
            self.twins.extend(others.map(|found| (found.path.clone(), first.path.clone())));
        }
        for (stem, files) in claims {
            if let [one] = files[..] {
                let Found { path, real, stamp, changed, .. } = one.clone();
                self.plugins.insert(stem.to_owned(), Plugin { path, real, stamp, changed });
            } else {
                let mut paths: Vec<PathBuf> = files.iter().map(|found| found.path.clone()).collect();
                paths.sort();
                self.disputed.insert(stem.to_owned(), paths);
            }
        }
        self.listings = listings;
    }

    /// Whether a file of this name was there, and was not another one's further name.
    fn counted(&self, path: &Path) -> bool {
        let listing = path.parent().and_then(|folder| self.listings.get(folder));
        let was_there = listing.is_some_and(|listing| listing.found.iter().any(|found| found.path == path));
        was_there && !self.twins.contains_key(path)
    }

    /// Whether another look found the same.
    pub(super) fn found_the_same(&self, other: &Self) -> bool {
        let Self { plugins, disputed, refused, twins, unreadable, interests: _, listings: _ } = self;
        *plugins == other.plugins
            && *disputed == other.disputed
            && *refused == other.refused
            && *twins == other.twins
            && *unreadable == other.unreadable
    }

    /// Whether the content of a file that lies in a directory which `is_watched` differs from what it was before, or one
    /// has come or gone: the file system should have told of that.
    pub(super) fn should_have_been_told(&self, before: &Self, is_watched: impl Fn(&Path) -> bool) -> bool {
        let plugins = |scan: &Self| -> BTreeMap<PathBuf, Stamp> {
            let all = scan.listings.values().flat_map(|listing| &listing.found);
            let told = all.filter(|found| found.real.parent().is_some_and(&is_watched));
            told.map(|found| (found.real.clone(), found.stamp)).collect()
        };
        let (before, now) = (plugins(before), plugins(self));
        let same = |(path, stamp): (&PathBuf, &Stamp)| {
            before.get(path).is_some_and(|other| stamp.same_content_likely(other))
        };
        before.len() != now.len() || !now.iter().all(same)
    }
}

/// Of a file's names that by which it is a plugin: the one that it had before, so that no new link takes a plugin's name
/// away; else one in the folder itself, a file before a link, the first in order.
fn the_one_that_counts<'a>(files: &[&'a Found], folder: &Path, before: Option<&Scan>) -> Option<&'a Found> {
    if let [one] = files {
        return Some(one);
    }
    let is_new = |found: &Found| before.is_none_or(|before| !before.counted(&found.path));
    let rank = |found: &Found| (is_new(found), found.path.parent() != Some(folder), found.is_link);
    files.iter().copied().min_by(|a, b| (rank(a), &a.path).cmp(&(rank(b), &b.path)))
}

/// Whether a folder says of itself that what is in it can be made anew.
fn is_cache(folder: &Path) -> bool {
    let (name, signature) = CACHE_TAG;
    let mut begins = [0; CACHE_TAG.1.len()];
    let read = File::open(folder.join(name)).and_then(|mut tag| tag.read_exact(&mut begins));
    read.is_ok() && begins == signature
}

/// The plugin's name: letters, digits, `-`, `_` and `.`, starting with a letter or digit. Strict, because
/// settings and grants go by it.
pub(super) fn stem(path: &Path) -> Result<String, String> {
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

#[cfg(test)]
mod tests;
