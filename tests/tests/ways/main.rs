//! Every way in which a plugin's file changes, as the file system tells of it and by polling: exactly one reload (or
//! none, where none is due), the right content in the end, a complete trace, and no warning but the one that is due.
//!
//! One module for each kind of change; each has two tests, which play its ways a few at a time and print how long each
//! took (`--nocapture`). `HARK_WAYS=word,word` plays those whose names have one of the words. What a machine does not
//! allow (mounts, dropping privileges) or does not have (an editor) is not played, and said to be so.

mod busy;
mod clock;
mod config_map;
mod configuration;
mod editors;
mod folders;
mod in_place;
mod links;
mod many;
mod mounts;
mod names;
mod odd;
mod permissions;
mod replaced;
mod unwatched;
