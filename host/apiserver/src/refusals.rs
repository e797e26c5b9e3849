//! What becomes of connections that the system refuses to hand over, as when there are too many open files.
//!
//! One a listening socket, used by this server's accept loop and by that of Hark's admin port. Invariants: a spell of
//! refusals is said once, and no two are said within [`QUIET`]; tries get rarer up to one for each [`LONGEST`], until
//! a connection comes.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::Instant;

/// Pause after the first refusal; twice as long after each further one.
const SHORTEST: Duration = Duration::from_millis(50);

/// The longest pause: how late, at most, somebody is served once the system can again.
const LONGEST: Duration = Duration::from_secs(1);

/// How long there is no second line, for a system in which every other try succeeds.
const QUIET: Duration = Duration::from_secs(30);

/// See the file's head.
#[derive(Debug, Default)]
pub struct Refusals {
    /// The pause after the last refusal; none: the last try gave a connection.
    pause: Option<Duration>,
    /// This spell was said.
    said: bool,
    /// When one was said last.
    last: Option<Instant>,
}

impl Refusals {
    /// A connection came.
    pub fn accepted(&mut self) {
        (self.pause, self.said) = (None, false);
    }

    /// None came: says so if that is due, and waits until it is time to try again.
    pub async fn refused(&mut self, error: &io::Error) {
        if let Some(line) = self.line(error, Instant::now()) {
            tracing::warn!("{line}");
        }
        tokio::time::sleep(self.next_pause()).await;
    }

    fn line(&mut self, error: &io::Error, now: Instant) -> Option<String> {
        let recent = self.last.is_some_and(|last| now.saturating_duration_since(last) < QUIET);
        if self.said || recent {
            return None;
        }
        (self.said, self.last) = (true, Some(now));
        Some(format!("cannot accept a connection: {error}{}; it is tried again until one comes", cure(error)))
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause.map_or(SHORTEST, |pause| LONGEST.min(pause * 2));
        self.pause = Some(pause);
        pause
    }
}

/// What to do about it, where that is known.
fn cure(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => ": raise the limit of open files of this process (ulimit -n)",
        Some(Errno::NFILE) => ": raise the limit of open files of the whole system (sysctl fs.file-max)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: Errno) -> io::Error {
        errno.into()
    }

    #[test]
    fn a_spell_is_said_once_with_its_cure_and_the_next_one_again() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let full = refused(Errno::MFILE);
        let mut said = |seconds| refusals.line(&full, start + Duration::from_secs(seconds));
        let want = "cannot accept a connection: Too many open files (os error 24): raise the limit of open files of \
                    this process (ulimit -n); it is tried again until one comes";
        assert_eq!(said(0).as_deref(), Some(want));
        assert_eq!((1..1000).find_map(&mut said), None, "it is the same spell");
        refusals.accepted();
        let mut said = |seconds| refusals.line(&full, start + Duration::from_secs(seconds));
        assert_eq!(said(1000).as_deref(), Some(want), "another one");
    }

    #[test]
    fn where_every_other_try_succeeds_there_is_a_line_now_and_then() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let said: Vec<u64> = (0..100)
            .filter(|second| {
                refusals.accepted();
                refusals.line(&refused(Errno::MFILE), start + Duration::from_secs(*second)).is_some()
            })
            .collect();
        assert_eq!(said, [0, 30, 60, 90]);
    }

    #[test]
    fn tries_get_rarer_until_one_succeeds() {
        let mut refusals = Refusals::default();
        let mut pauses =
            |count: usize| -> Vec<u128> { (0..count).map(|_| refusals.next_pause().as_millis()).collect() };
        assert_eq!(pauses(7), [50, 100, 200, 400, 800, 1000, 1000]);
        refusals.accepted();
        assert_eq!(refusals.next_pause(), SHORTEST);
    }

    #[test]
    fn what_helps_is_said_where_it_is_known() {
        assert!(cure(&refused(Errno::NFILE)).contains("fs.file-max"));
        assert_eq!(cure(&refused(Errno::CONNABORTED)), "");
        assert_eq!(cure(&io::Error::other("odd")), "");
    }
}
