//! How many files the process may have open: all that the system allows it.
//!
//! Used by `main` before anything runs. The usual limit of 1,024 is there for programs that use `select`, which Hark does
//! not; a process may raise its own, up to the hard limit. Each plugin's compiled code keeps one file open (the image of
//! its memory), and each watch has a connection of its own where the API server speaks HTTP/1.1 only: a thousand plugins
//! would come upon the usual limit (`cargo xtask idle` counts). Invariant: the host's own limit is never
//! lowered; what it starts for a user has that of the user.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many there may be now; none: no bound.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Sets the limit back, for a program that is not ours: some close all that may be open, or use `select`.
///
/// # Errors
/// If the system refuses.
pub(crate) fn set_limit(files: u64) -> std::io::Result<()> {
    let limit = Rlimit { current: Some(files), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).map_err(std::io::Error::from)
}

/// Raises the limit as far as it goes. Where that fails, what there is must do: it is said only when it runs out.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!("open files allowed: {:?}, were {:?}", raised.current, limit.current),
        Err(error) => tracing::debug!("open files allowed: {:?}; no more: {error}", limit.current),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_becomes_the_hard_one_and_stays_there() {
        let before = getrlimit(Resource::Nofile);
        raise_limit();
        let raised = getrlimit(Resource::Nofile);
        assert_eq!(raised, Rlimit { current: before.maximum, maximum: before.maximum });
        raise_limit();
        assert_eq!((getrlimit(Resource::Nofile), limit()), (raised, raised.current));
    }
}
