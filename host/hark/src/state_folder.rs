//! Where what outlives a host is kept: a folder for each cluster in the state folder, owned by one host at a time.
//!
//! Used by the host, which takes a cluster's folder for its [dead letters](crate::dead_letters) and for the [versions
//! that it keeps](crate::kept), and by `hark dead-letters`, which looks through all of them. A letter belongs to a
//! cluster, since on another one its object is not there, and the letter would be taken for obsolete; that a version is
//! no good may show on one cluster only. Invariants: folders that Hark makes are their owner's alone; a folder is a host's for as long as that
//! holds its lock, which the system takes from a process that dies.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hark_sandbox::ContentHash;
use serde::{Deserialize, Serialize};

/// Characters of a folder's name that come from the API server's address.
const NAME_MAX: usize = 100;

/// The mode of a file: of nobody else's business.
pub(crate) const OWNER_ONLY: u32 = 0o600;

/// What ends a file's name while it is written, behind a dot.
pub(crate) const UNFINISHED: &str = "new";

/// Why nothing can be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// Neither the configuration nor the environment names a place.
    #[error("there is no state folder: set host.state_dir in hark.toml, or $XDG_STATE_HOME or $HOME")]
    NoHome,
    /// The system refuses.
    #[error("cannot use {}: {source}", path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another host has the same cluster and the same state folder.
    #[error("another hark keeps its dead letters in {} (give this one a host.state_dir of its own)", path.display())]
    Taken {
        /// The cluster's folder.
        path: PathBuf,
    },
}

/// Whose they are, as the name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster(String);

impl Cluster {
    /// The cluster with this API server: its host and port, and a hash where those do not say all of the address.
    pub(crate) fn of_server(url: &str) -> Self {
        let rest = url.trim_end_matches('/');
        let rest = rest.strip_prefix("https://").unwrap_or(rest);
        let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-');
        let name: String = rest.chars().map(|char| if plain(char) { char } else { '_' }).collect();
        let is_all = rest.chars().all(|char| plain(char) || char == ':') && name.len() <= NAME_MAX;
        if is_all && !name.is_empty() && !name.starts_with('.') {
            return Self(name);
        }
        let short: String = name.trim_start_matches('.').chars().take(NAME_MAX).collect();
        Self(format!("{short}-{}", ContentHash::of(url.as_bytes()).short()))
    }

    /// The embedded API server of `hark dev`.
    pub(crate) fn dev() -> Self {
        Self("dev".to_owned())
    }
}

/// `$XDG_STATE_HOME/hark`, else `~/.local/state/hark`; none without a home.
pub(crate) fn default_state() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("hark"))
}

/// What a host says of itself while it runs.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    pid: u32,
    /// Its admin port; none if it has none.
    admin: Option<SocketAddr>,
}

/// A cluster's folder in the hands of the host.
#[derive(Debug)]
pub(crate) struct HostFolder {
    path: PathBuf,
    _lock: File,
}

impl HostFolder {
    /// Takes the folder, making it if need be, and says in it where the host is.
    ///
    /// # Errors
    /// If it cannot be made or written, or another host has it.
    pub(crate) fn take(
        state: &Path,
        cluster: &Cluster,
        admin: Option<SocketAddr>,
    ) -> Result<Self, FolderError> {
        let path = state.join(&cluster.0);
        let unusable = |path: &Path, source| FolderError::Unusable { path: path.to_owned(), source };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|source| unusable(&path, source))?;
        let lock = open(&lock_path(&path), false).map_err(|source| unusable(&lock_path(&path), source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::Taken { path }),
            Err(TryLockError::Error(source)) => return Err(unusable(&lock_path(&path), source)),
        }
        let note = Note { pid: std::process::id(), admin };
        let written = open(&note_path(&path), true)
            .and_then(|mut file| Ok(serde_json::to_writer(&mut file, &note)?))
            .map_err(|source| unusable(&note_path(&path), source));
        written.map(|()| Self { path, _lock: lock })
    }
}

/// A cluster's folder that the host has, or is going to have once the system lets it. Clones share it; it is free again
/// when all of them are gone.
#[derive(Debug, Clone)]
pub(crate) struct StatePlace {
    state: PathBuf,
    cluster: Cluster,
    admin: Option<SocketAddr>,
    taken: Arc<Mutex<Option<HostFolder>>>,
}

impl StatePlace {
    /// The folder of a cluster, not taken yet.
    pub(crate) fn new(state: &Path, cluster: &Cluster, admin: Option<SocketAddr>) -> Self {
        Self { state: state.to_owned(), cluster: cluster.clone(), admin, taken: Arc::default() }
    }

    /// Where it is, or is going to be.
    pub(crate) fn path(&self) -> PathBuf {
        self.state.join(&self.cluster.0)
    }

    /// Takes it, unless that is done.
    ///
    /// # Errors
    /// As [`HostFolder::take`].
    pub(crate) fn take(&self) -> Result<(), FolderError> {
        let mut taken = self.taken();
        if taken.is_none() {
            *taken = Some(HostFolder::take(&self.state, &self.cluster, self.admin)?);
        }
        Ok(())
    }

    /// The host has it.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken().is_some()
    }

    fn taken(&self) -> MutexGuard<'_, Option<HostFolder>> {
        // A panic elsewhere leaves the folder taken, or not.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostFolder {
    fn drop(&mut self) {
        // Without it the lock says the same: nobody has the folder.
        let _ = std::fs::remove_file(note_path(&self.path));
    }
}

/// A cluster's folder as others find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The folder's name.
    pub(crate) cluster: String,
    pub(crate) path: PathBuf,
}

/// The clusters' folders, by name.
///
/// # Errors
/// If the state folder is there, and cannot be read.
pub(crate) fn found(state: &Path) -> io::Result<Vec<Found>> {
    let entries = match std::fs::read_dir(state) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(cluster) = name.filter(|_| path.is_dir()) {
            all.push(Found { cluster, path });
        }
    }
    all.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Ok(all)
}

/// Whether a host runs that has a folder, and what is known of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// None does.
    None,
    /// One does, and answers here.
    At(SocketAddr),
    /// One does, without an admin port.
    Silent,
}

impl Found {
    /// The host that has the folder now.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub(crate) fn host(&self) -> io::Result<Host> {
        let lock = match File::open(lock_path(&self.path)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Host::None),
            Err(error) => return Err(error),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(Host::None),
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => {
                let text = std::fs::read_to_string(note_path(&self.path))?;
                let note: Note = serde_json::from_str(&text)?;
                Ok(note.admin.map_or(Host::Silent, Host::At))
            }
        }
    }
}

fn lock_path(folder: &Path) -> PathBuf {
    folder.join("host.lock")
}

fn note_path(folder: &Path) -> PathBuf {
    folder.join("host.json")
}

fn open(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(truncate).mode(0o600).open(path)
}

/// Makes a file these bytes, at once and for good; it is its owner's alone.
///
/// # Errors
/// The system's: the file is what it was before.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    let beside = PathBuf::from(name);
    // A leftover may be a link, or somebody else's.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(OWNER_ONLY).open(&beside)?;
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_cluster_is_named_by_its_server() {
        let name = |url| Cluster::of_server(url).0;
        assert_eq!(name("https://10.0.0.1:6443"), "10.0.0.1_6443");
        assert_eq!(name("https://api.example.com/"), "api.example.com");
        let (a, b) = (name("https://proxy/k8s/a"), name("https://proxy/k8s_a"));
        assert!(a.starts_with("proxy_k8s_a-") && b.starts_with("proxy_k8s_a-") && a != b, "{a} {b}");
        for odd in ["", "..", "../../etc", "https://[::1]:6443/../x"] {
            let name = name(odd);
            assert!(!name.contains('/') && !name.starts_with('.') && name.len() > 12, "{odd:?} {name:?}");
        }
    }

    #[test]
    fn a_folder_is_its_owners_and_one_hosts_at_a_time() {
        let state = tempfile::tempdir().expect("a folder");
        let state = state.path().join("made");
        let cluster = Cluster::of_server("https://10.0.0.1:6443");
        let admin = SocketAddr::from(([127, 0, 0, 1], 9464));
        let first = HostFolder::take(&state, &cluster, Some(admin)).expect("taken");
        for folder in [&state, &first.path] {
            assert_eq!(folder.metadata().expect("there").permissions().mode() & 0o777, 0o700);
        }
        let found = found(&state).expect("read");
        assert_eq!(found[0].host().expect("known"), Host::At(admin));
        let error = HostFolder::take(&state, &cluster, None).expect_err("taken").to_string();
        assert!(error.starts_with("another hark keeps its dead letters in ") && error.contains("state_dir"));
        HostFolder::take(&state, &Cluster::dev(), None).expect("another cluster's is another folder");
        drop(first);
        assert_eq!(found[0].host().expect("known"), Host::None);
        let silent = HostFolder::take(&state, &cluster, None).expect("it is free again");
        assert_eq!(found[0].host().expect("known"), Host::Silent);
        drop(silent);
    }

    #[test]
    fn a_place_is_free_again_when_all_its_users_are_gone() {
        let state = tempfile::tempdir().expect("a folder");
        let place = || StatePlace::new(state.path(), &Cluster::dev(), None);
        let (one, other) = (place(), place());
        let shared = one.clone();
        assert!(!one.is_taken());
        one.take().expect("free");
        shared.take().expect("the same");
        assert!(shared.is_taken() && other.take().is_err());
        drop(one);
        assert!(other.take().is_err());
        drop(shared);
        other.take().expect("free again");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = HostFolder::take(file.path(), &Cluster::dev(), None).expect_err("a file");
        assert!(error.to_string().starts_with(&format!("cannot use {}", file.path().display())), "{error}");
    }
}
