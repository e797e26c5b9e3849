//! The process loop and the informer for one handler, in paused time.

mod cluster;
mod coherence;
mod handling;
mod informer;
mod process_loop;
mod transition;

use std::sync::{Arc, Mutex};

use crate::handler::Event;

/// What a process or a handler was told, in order.
type Lines = Arc<Mutex<Vec<String>>>;

fn line(event: &Event) -> String {
    let (op, key, version) = (event.op(), event.key(), event.object().resource_version());
    match event {
        Event::Add { initial: true, .. } => format!("{op} {key}@{version} initial"),
        Event::Add { .. } => format!("{op} {key}@{version}"),
        Event::Update { old, resync, .. } => {
            let resync = if *resync { " resync" } else { "" };
            format!("{op} {key}@{}->{version}{resync}", old.resource_version())
        }
        Event::Delete { reason, .. } => format!("{op} {key}@{version} {}", reason.as_str()),
    }
}

fn write(lines: &Lines, line: String) {
    lines.lock().expect("lines").push(line);
}

fn read(lines: &Lines) -> Vec<String> {
    lines.lock().expect("lines").clone()
}
