//! Random scripts of directories that are made, removed and moved, on the kernel's own inotify, with sets that change:
//! whatever happened, once the set is followed and nothing more is told, each directory in it is watched, and a write in
//! it is told of, by its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};

use proptest::prelude::*;

use super::*;

/// For as long as a machine under load may take.
const LONG: Duration = Duration::from_secs(30);

/// The directories of the scripts, below a root that is always watched.
const NAMES: [&str; 6] = ["a", "a/x", "a/x/y", "b", "b/x", "b/x/y"];

#[derive(Debug, Clone)]
enum Step {
    Make(usize),
    Remove(usize),
    Move(usize, usize),
    Write(usize),
    /// These are wanted from now on.
    Want(Vec<bool>),
    /// The set is followed at once, although what happened may not have been told yet.
    Follow,
    /// It is followed when all that happened has been told.
    FollowWhatWasTold,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => name().prop_map(Step::Make),
        1 => name().prop_map(Step::Remove),
        3 => (name(), name()).prop_map(|(from, to)| Step::Move(from, to)),
        1 => name().prop_map(Step::Write),
        1 => prop::collection::vec(any::<bool>(), NAMES.len()).prop_map(Step::Want),
        1 => Just(Step::Follow),
        3 => Just(Step::FollowWhatWasTold),
    ]
}

/// A watcher as whoever looks has one.
struct Looking {
    folder: tempfile::TempDir,
    watcher: DirectoryWatcher,
    told: Receiver<PathBuf>,
    wanted: Vec<bool>,
    marks: u32,
}

impl Looking {
    fn new(wanted: Vec<bool>) -> Self {
        let (sender, told) = mpsc::channel();
        let ear = move |news: News<'_>| {
            if let News::Of(path, _) = news {
                // The script may be over.
                let _ = sender.send(path.to_owned());
            }
        };
        let folder = tempfile::tempdir().expect("a folder");
        let watcher = DirectoryWatcher::new(Arc::new(ear));
        let mut looking = Self { folder, watcher, told, wanted, marks: 0 };
        looking.follow();
        looking
    }

    fn path(&self, name: usize) -> PathBuf {
        self.folder.path().join(NAMES[name])
    }

    fn wanted(&self) -> Vec<PathBuf> {
        let names = (0..NAMES.len()).filter(|name| self.wanted[*name]);
        let paths = names.map(|name| self.path(name)).filter(|path| path.is_dir());
        [self.folder.path().to_owned()].into_iter().chain(paths).collect()
    }

    fn follow(&mut self) -> bool {
        let followed = self.watcher.follow(&self.wanted().iter().collect(), Instant::now());
        assert_eq!(followed.trouble, None);
        followed.more
    }

    /// What goes wrong is no part of the script: what is to be made may have no place, and so on.
    fn play(&mut self, step: &Step) {
        let _ = match step {
            Step::Make(name) => fs::create_dir(self.path(*name)),
            Step::Remove(name) => fs::remove_dir_all(self.path(*name)),
            Step::Move(from, to) => fs::rename(self.path(*from), self.path(*to)),
            Step::Write(name) => fs::write(self.path(*name).join("file"), "x"),
            Step::Want(wanted) => {
                self.wanted.clone_from(wanted);
                Ok(())
            }
            Step::Follow => {
                self.follow();
                Ok(())
            }
            Step::FollowWhatWasTold => {
                self.told();
                self.follow();
                Ok(())
            }
        };
    }

    /// All that is told until a change that is made now, in the root, is.
    fn told(&mut self) -> BTreeSet<PathBuf> {
        self.marks += 1;
        let mark = self.folder.path().join(format!("mark-{}", self.marks));
        fs::create_dir(&mark).expect("made");
        let mut told = BTreeSet::new();
        loop {
            let path = self.told.recv_timeout(LONG).expect("the root is watched");
            if path == mark {
                return told;
            }
            told.insert(path);
        }
    }

    /// Follows, since the set may have changed, until nothing more is told.
    fn settle(&mut self) {
        loop {
            let told = self.told();
            if !self.follow() && told.is_empty() {
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn whatever_happened_what_is_wanted_is_watched_in_the_end(
        wanted in prop::collection::vec(any::<bool>(), NAMES.len()),
        script in prop::collection::vec(step(), 1..60),
    ) {
        let mut looking = Looking::new(wanted);
        for step in &script {
            looking.play(step);
        }
        looking.settle();
        let wanted = looking.wanted();
        prop_assert_eq!(looking.watcher.count(), wanted.len());
        for directory in wanted {
            prop_assert!(looking.watcher.watches(&directory), "{directory:?}");
            let file = directory.join("last");
            fs::write(&file, "x").expect("written");
            prop_assert!(looking.told().contains(&file), "{directory:?}");
        }
        let unwanted = (0..NAMES.len()).filter(|name| !looking.wanted[*name]).map(|name| looking.path(name));
        for directory in unwanted.filter(|path| path.is_dir()).collect::<Vec<_>>() {
            fs::write(directory.join("last"), "x").expect("written");
        }
        let told = looking.told();
        prop_assert!(told.iter().all(|path| !path.ends_with("last")), "{told:?}");
    }
}
