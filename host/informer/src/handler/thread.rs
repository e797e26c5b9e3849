//! Starting a thread, where the system may have none to give.
//!
//! Used wherever what the thread is to have must not be dropped by whoever starts it: a runtime may not be dropped
//! within another one, and a guard says things when it goes. Invariant: a thread has all of its parts, or they come back.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

/// Starts a thread that does `work` with its `parts`.
///
/// # Errors
/// If the system gives no thread: why, and the parts, as they were.
pub fn start_thread<T: Send + 'static>(
    thread: Builder,
    parts: T,
    work: impl FnOnce(T) + Send + 'static,
) -> Result<(), (io::Error, T)> {
    let (hand_over, parts_of_thread) = sync_channel(1);
    let begin = move || {
        if let Ok(parts) = parts_of_thread.recv() {
            work(parts);
        }
    };
    if let Err(error) = thread.spawn(begin) {
        return Err((error, parts));
    }
    // It waits for them, and has room.
    hand_over.send(parts).map_err(|back| (io::Error::other("the thread ended at once"), back.0))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_has_its_parts_and_without_a_thread_they_come_back() {
        let (sender, seen) = channel();
        let say = move |part: &str| sender.send(part.to_owned()).expect("the test listens");
        start_thread(Builder::new(), "parts", say.clone()).expect("a thread");
        assert_eq!(seen.recv().as_deref(), Ok("parts"));
        // A stack beyond all address space: the system refuses.
        let refused = start_thread(Builder::new().stack_size(1 << 50), "again", say);
        assert_eq!(refused.expect_err("no such thread").1, "again");
        assert!(seen.recv().is_err(), "nothing was done");
    }
}
