//! What a build's sources are: the files whose changes start it, and the folders in which they lie.
//!
//! Used by [`super::look`]. The crate `ignore` walks: what `.gitignore` and `.ignore` name and what is hidden is no source,
//! within a git repository or not. Invariants: what Hark itself reads or writes (plugins, state, caches, trace, a log that
//! its output was sent to) is none, else each build, or each event, would start the next one; nor is what a tool has
//! marked as its output (`CACHEDIR.TAG`), or what editors and compilers leave beside sources.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};

use crate::config::Build;

/// What is no source anywhere, unless a pattern of the user's brings it back (`!*.wasm`).
const NEVER: &[&str] = &[
    // Editors' copies and tests of a folder: emacs, vim, JetBrains, kate.
    "*~",
    "\\#*#",
    "*.sw[a-p]",
    "*.swx",
    "4913",
    "*___jb_tmp___",
    "*___jb_old___",
    "*.kate-swp",
    // What compilers and package managers make.
    "*.wasm",
    "*.o",
    "*.d",
    "*.a",
    "*.pyc",
    "__pycache__/",
    "node_modules/",
];

/// The file that marks a folder as a cache, and how it begins (<https://bford.info/cachedir/>).
const CACHE_TAG: (&str, &[u8]) = ("CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55");

/// A pattern as `.gitignore` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(String);

/// It is not one.
#[derive(Debug, thiserror::Error)]
#[error("{pattern:?} is no pattern as .gitignore has them: {reason}")]
pub(crate) struct PatternError {
    pattern: String,
    reason: String,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let refused = |reason: &str| PatternError { pattern: text.to_owned(), reason: reason.to_owned() };
        if text.trim().is_empty() || text.starts_with('#') {
            return Err(refused("it says nothing"));
        }
        if text.contains(char::is_control) {
            return Err(refused("it has control characters"));
        }
        let mut builder = GitignoreBuilder::new("/");
        match builder.add_line(None, text).and_then(|builder| builder.build()) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(refused(&error.to_string())),
        }
    }
}

/// What Hark itself reads or writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Own {
    /// The plugins folder. If sources lie in it, only the plugins in it are left out.
    pub(crate) plugins: PathBuf,
    /// Folders whose whole content is left out.
    pub(crate) folders: Vec<PathBuf>,
    /// Files that are left out.
    pub(crate) files: Vec<PathBuf>,
}

impl Own {
    /// All of it that is there, under whatever names, and where standard output and error go.
    fn identities(&self) -> BTreeSet<Identity> {
        let paths = self.files.iter().chain(&self.folders).chain([&self.plugins]);
        let there = paths.filter_map(|path| std::fs::metadata(path).ok()).map(|metadata| identity(&metadata));
        let streams = [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
        there.chain(streams.into_iter().filter_map(stream)).collect()
    }
}

/// See the file's head. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Sources(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    roots: Vec<PathBuf>,
    never: Gitignore,
    own: Own,
}

/// Device and inode, which tell a file whatever it is called.
type Identity = (u64, u64);

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) files: BTreeSet<PathBuf>,
    /// To be watched: the folders of the files, and of what is missing.
    pub(super) folders: BTreeSet<PathBuf>,
    /// What is wrong, for people.
    pub(super) complaints: BTreeSet<String>,
}

impl Sources {
    /// The sources of a build.
    ///
    /// # Errors
    /// If the present folder is gone.
    pub(super) fn of(build: &Build, own: &Own) -> std::io::Result<Self> {
        let folder = absolute(&build.folder)?;
        let mut never = GitignoreBuilder::new(&folder);
        for pattern in NEVER.iter().copied().chain(build.ignore.iter().map(|pattern| pattern.0.as_str())) {
            never.add_line(None, pattern).map_err(std::io::Error::other)?;
        }
        let all = |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<std::io::Result<_>>();
        Ok(Self(Arc::new(Inner {
            roots: all(&build.sources)?,
            never: never.build().map_err(std::io::Error::other)?,
            own: Own {
                plugins: absolute(&own.plugins)?,
                folders: all(&own.folders)?,
                files: all(&own.files)?,
            },
        })))
    }

    /// Whether an event about this path is no reason to look. Asked often; it looks at the name alone.
    pub(super) fn is_beside(&self, path: &Path) -> bool {
        self.0.is_own(path) || self.0.never.matched(path, false).is_ignore()
    }

    /// Looks for everything.
    pub(super) fn walk(&self) -> Walked {
        let mut walked = Walked::default();
        for root in &self.0.roots {
            self.walk_root(root, &mut walked);
        }
        if walked.files.is_empty() && walked.complaints.is_empty() {
            let roots: Vec<String> = self.0.roots.iter().map(|root| root.display().to_string()).collect();
            let roots = roots.join(", ");
            walked.complaints.insert(format!(
                "there are no sources in {roots}: nothing there starts the build (what .gitignore names is none)"
            ));
        }
        walked
    }

    fn walk_root(&self, root: &Path, walked: &mut Walked) {
        match std::fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                walked.files.insert(root.to_owned());
                walked.folders.extend(root.parent().map(Path::to_owned));
                return;
            }
            Err(error) => {
                let shown = root.display();
                walked.complaints.insert(format!("cannot read the sources in {shown}: {error}"));
                // It may come back: the next folder above that is there will tell.
                walked
                    .folders
                    .extend(root.ancestors().skip(1).find(|above| above.is_dir()).map(Path::to_owned));
                return;
            }
        }
        let (inner, own) = (self.0.clone(), self.0.own.identities());
        let in_git = root.ancestors().any(|above| above.join(".git").exists());
        let walk = WalkBuilder::new(root)
            // Within a repository, what lies above it has no say: a home folder may be one that ignores everything.
            .require_git(in_git)
            .filter_entry(move |entry| entry.depth() == 0 || inner.takes(entry, &own))
            .build();
        for entry in walk {
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_dir()) => {
                    walked.folders.insert(entry.into_path());
                }
                Ok(entry) if is_file(&entry) => {
                    walked.files.insert(entry.into_path());
                }
                Ok(_) => {}
                // A file that went away since its folder was read is simply not there.
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    walked.complaints.insert(format!("cannot read all of the sources: {error}"));
                }
            }
        }
    }
}

impl Inner {
    /// Whether an entry below a root is a source, or a folder that may have some.
    fn takes(&self, entry: &DirEntry, own: &BTreeSet<Identity>) -> bool {
        let (path, is_dir) = (entry.path(), entry.file_type().is_some_and(|kind| kind.is_dir()));
        if self.is_own(path) || self.never.matched(path, is_dir).is_ignore() {
            return false;
        }
        let is_own = |metadata: Metadata| own.contains(&identity(&metadata));
        !(is_dir && is_cache(path) || entry.metadata().is_ok_and(is_own))
    }

    fn is_own(&self, path: &Path) -> bool {
        let own = &self.own;
        if own.files.iter().any(|file| file == path)
            || own.folders.iter().any(|folder| path.starts_with(folder))
        {
            return true;
        }
        if !path.starts_with(&own.plugins) {
            return false;
        }
        let in_plugins = self.roots.iter().any(|root| root.starts_with(&own.plugins));
        let is_plugin = path.extension().is_some_and(|extension| extension == "wasm" || extension == "wat");
        !in_plugins || is_plugin
    }
}

/// As `std::path::absolute`, where no path at all is the present folder.
pub(super) fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    if path.as_os_str().is_empty() { std::env::current_dir() } else { std::path::absolute(path) }
}

/// A regular file, or a link to one.
fn is_file(entry: &DirEntry) -> bool {
    match entry.file_type() {
        Some(kind) if kind.is_symlink() => {
            std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file())
        }
        kind => kind.is_some_and(|kind| kind.is_file()),
    }
}

fn is_cache(folder: &Path) -> bool {
    let (name, signature) = CACHE_TAG;
    let mut begins = vec![0; signature.len()];
    let read = std::fs::File::open(folder.join(name)).and_then(|mut file| file.read_exact(&mut begins));
    read.is_ok() && begins == signature
}

fn is_not_found(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The regular file that a stream was sent to, if it was.
fn stream(stream: rustix::io::Result<rustix::fs::Stat>) -> Option<Identity> {
    let stat = stream.ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    is_file.then_some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn sources(folder: &Path, sources: &[&str], ignore: &[&str], own: Own) -> Sources {
        let build = Build {
            run: "true".into(),
            folder: folder.to_owned(),
            sources: sources.iter().map(|source| folder.join(source)).collect(),
            ignore: ignore.iter().map(|pattern| pattern.parse().expect("a pattern")).collect(),
        };
        Sources::of(&build, &own).expect("sources")
    }

    fn own(folder: &Path) -> Own {
        Own {
            plugins: folder.join("plugins"),
            folders: vec![folder.join("state")],
            files: vec![folder.join("trace.jsonl")],
        }
    }

    fn found(folder: &Path, sources: &Sources) -> Vec<String> {
        let inside = |path: &PathBuf| path.strip_prefix(folder).expect("inside").display().to_string();
        sources.walk().files.iter().map(inside).collect()
    }

    #[test]
    fn what_is_ignored_hidden_own_marked_or_left_by_tools_is_no_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for file in [
            "src/lib.rs",
            "Makefile",
            "notes.tmp",
            "out/app.js",
            ".env",
            ".git/HEAD",
            "state/letters",
            "trace.jsonl",
            "plugins/a.wasm",
            "plugins/readme",
            "src/lib.rs~",
            "src/.lib.rs.swp",
            "src/4913",
            "src/#lib.rs#",
            "src/x.o",
            "web/node_modules/x/index.js",
            "web/index.js",
            "deep/er/ignored",
            "deep/er/kept",
        ] {
            write(at, file, "x");
        }
        write(at, "target/CACHEDIR.TAG", &format!("{}\n# cargo's", String::from_utf8_lossy(CACHE_TAG.1)));
        write(at, "target/debug/x", "x");
        write(at, "looks/CACHEDIR.TAG", "like one");
        write(at, ".gitignore", "/out\n");
        write(at, "deep/.ignore", "ignored\n");
        let all = sources(at, &["."], &["*.tmp"], own(at));
        let want = ["Makefile", "deep/er/kept", "looks/CACHEDIR.TAG", "src/lib.rs", "web/index.js"];
        assert_eq!(found(at, &all), want);
        let walked = all.walk();
        let inside = |folder: &str| walked.folders.contains(&absolute(&at.join(folder)).expect("a path"));
        assert!(["", "src", "deep", "deep/er", "web"].into_iter().all(inside), "{:?}", walked.folders);
        assert!(!["out", "target", "plugins", "web/node_modules", ".git"].into_iter().any(inside));
        assert!(walked.complaints.is_empty());
        assert!(all.is_beside(&at.join("trace.jsonl")) && all.is_beside(&at.join("src/x.swp")));
        assert!(!all.is_beside(&at.join("src/lib.rs")));
        let back = sources(at, &["src"], &["!*.o"], own(at));
        assert_eq!(found(at, &back), ["src/lib.rs", "src/x.o"]);
    }

    #[test]
    fn what_is_named_is_a_source_although_it_is_ignored_and_may_be_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        write(at, ".gitignore", "/generated\n*.txt\n");
        write(at, "generated/a.rs", "x");
        write(at, "one.txt", "x");
        let named = sources(at, &["generated", "one.txt", "gone/for/now"], &[], own(at));
        assert_eq!(found(at, &named), ["generated/a.rs", "one.txt"]);
        let walked = named.walk();
        let complaint = walked.complaints.first().expect("a complaint");
        assert!(complaint.starts_with("cannot read the sources in ") && complaint.contains("gone/for/now: "));
        assert!(walked.folders.contains(at), "the folder above will tell when it comes");
        let none = sources(&at.join("generated"), &["."], &["*.rs"], Own::default()).walk();
        assert!(none.complaints.first().expect("a complaint").starts_with("there are no sources in "));
    }

    #[test]
    fn plugins_among_the_sources_are_left_out_one_by_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for file in ["a.c", "a.wasm", "b.wat", "sub/c.c"] {
            write(at, file, "x");
        }
        let beside = sources(at, &["."], &["!*.wasm"], Own { plugins: at.to_owned(), ..Own::default() });
        assert_eq!(found(at, &beside), ["a.c", "sub/c.c"]);
    }

    #[test]
    fn what_is_own_is_none_by_another_name_either() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for file in ["project/a.c", "project/plugins/readme", "project/state/letters", "project/trace.jsonl"]
        {
            write(at, file, "x");
        }
        std::os::unix::fs::symlink("project", at.join("link")).expect("linked");
        let named = sources(at, &["project"], &[], own(&at.join("link")));
        assert_eq!(found(at, &named), ["project/a.c"]);
    }

    #[test]
    fn what_lies_above_a_repository_has_no_say_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        write(at, ".gitignore", "*\n");
        write(at, "project/a.c", "x");
        assert!(found(at, &sources(at, &["project"], &[], Own::default())).is_empty());
        std::fs::create_dir(at.join("project/.git")).expect("made");
        assert_eq!(found(at, &sources(at, &["project"], &[], Own::default())), ["project/a.c"]);
    }

    #[test]
    fn a_pattern_is_what_gitignore_takes() {
        for good in ["*.tmp", "/out", "a/**/b", "!x", "dir/", "[a-z]"] {
            assert!(good.parse::<Pattern>().is_ok(), "{good}");
        }
        for bad in ["", "  ", "# comment", "[z-a]", "a\nb", "{a,b"] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad:?}");
        }
    }
}
