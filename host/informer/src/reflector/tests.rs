//! The state machine against a scripted lister-watcher and a recording store, in paused time; a file a subject.

mod counting;
mod crowd;
mod healing;
mod lists;
mod stopping;
mod streaming;
mod support;
mod watches;
