//! The process loop and the informer for one handler, in paused time.

mod process_loop;

use std::sync::{Arc, Mutex};

/// What a handler was told, in order.
type Lines = Arc<Mutex<Vec<String>>>;

fn write(lines: &Lines, line: String) {
    lines.lock().expect("lines").push(line);
}

fn read(lines: &Lines) -> Vec<String> {
    lines.lock().expect("lines").clone()
}
