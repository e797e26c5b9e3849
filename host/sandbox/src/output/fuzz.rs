//! Targets `lines` and `gate`: what a guest writes, in whatever pieces, and how often.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hark_fuzz::{Target, odd_text};
use proptest::prelude::*;

use super::{Context, Gate, Output, text};
use crate::cap::Cap;
use crate::guest_log::{GuestLine, GuestLog, LogLevel, LogSource};
use crate::limits::Limits;
use crate::settings::Settings;
use crate::usage::Usage;

/// Bytes of the note on what was cut.
const NOTE: usize = "… [1023 bytes cut]".len();

#[derive(Default)]
struct Said(Mutex<Vec<(LogSource, String)>>);

impl GuestLog for Said {
    fn line(&self, line: GuestLine<'_>) {
        self.0.lock().expect("whole").push((line.source, line.message.to_owned()));
    }
}

/// What a guest may do to its output.
#[derive(Debug, Clone)]
enum Say {
    Write(LogSource, Vec<u8>),
    Log(String),
    /// The call is over.
    End,
}

fn say() -> impl Strategy<Value = Say> {
    let source = || prop::sample::select(vec![LogSource::Stdout, LogSource::Stderr]);
    let bytes = prop_oneof![
        odd_text(12).prop_map(String::into_bytes),
        // Pieces of characters.
        prop::collection::vec(prop::sample::select(b"\n\xe2\x82\xac\xff\xf0\x9f\x91\x8da".to_vec()), 0..24),
    ];
    prop_oneof![
        6 => (source(), bytes).prop_map(|(source, bytes)| Say::Write(source, bytes)),
        1 => odd_text(12).prop_map(Say::Log),
        1 => Just(Say::End),
    ]
}

/// The lines that should come out: each stream split at its newlines, each line cut at so many bytes, then cleaned.
fn model(says: &[Say], most: usize) -> Vec<(LogSource, String)> {
    let mut lines = Vec::new();
    let mut streams = [(LogSource::Stdout, Vec::new()), (LogSource::Stderr, Vec::new())];
    for say in says {
        match say {
            Say::Write(source, bytes) => {
                let stream = &mut streams[usize::from(*source == LogSource::Stderr)].1;
                stream.extend_from_slice(bytes);
                while let Some(end) = stream.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = stream.drain(..=end).collect();
                    lines.push((*source, shown(&line[..end], most)));
                }
            }
            Say::Log(message) => lines.push((LogSource::Log, text::clean(message, most))),
            Say::End => {
                for (source, rest) in streams.iter_mut().filter(|(_, rest)| !rest.is_empty()) {
                    lines.push((*source, shown(rest, most)));
                    rest.clear();
                }
            }
        }
    }
    lines
}

/// A line of bytes for people.
fn shown(line: &[u8], most: usize) -> String {
    let mut kept = &line[..line.len().min(most)];
    if kept.len() < line.len() {
        // The beginning of a character, whose rest may be what was cut off.
        let begins = |count: &usize| {
            let end = &kept[kept.len().saturating_sub(*count)..];
            std::str::from_utf8(end)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        };
        let broken = (1..=3.min(kept.len())).find(begins).unwrap_or(0);
        kept = &kept[..kept.len() - broken];
    }
    text::clean_beyond(&String::from_utf8_lossy(kept), most, line.len() - kept.len())
}

#[test]
fn fuzz_lines() {
    let target = Target { name: "lines", cases: 3000, within: Duration::from_millis(200) };
    let input = || (prop::collection::vec(say(), 0..12), 0_usize..40);
    hark_fuzz::values(target, input, |(says, most)| {
        let said = Arc::new(Said::default());
        let limits = Limits { log_line: *most, log_lines: u32::MAX, ..Limits::default() };
        let usage = Arc::new(Usage::default());
        let settings = Arc::new(Settings::default());
        let context = Context { settings, limits, log: said.clone(), usage: usage.clone(), core_dumps: None };
        let output = Output::new(&context);
        for say in says {
            match say {
                Say::Write(source, bytes) => output.write(*source, bytes),
                Say::Log(message) => output.line(LogLevel::Info, LogSource::Log, message),
                Say::End => output.end(),
            }
        }
        let said = said.0.lock().expect("whole").clone();
        let whole = model(says, usize::MAX);
        let want = model(says, *most);
        prop_assert_eq!(&said, &want);
        let cut = want.iter().zip(&whole).filter(|(line, whole)| line != whole).count();
        prop_assert_eq!(usage.cap_hits(Cap::LogLine), cut as u64);
        for (_, line) in &said {
            prop_assert!(line.len() <= most + NOTE, "{} bytes", line.len());
        }
        Ok(())
    });
}

/// Asks of the gate: a line, or the end of a call, so many milliseconds after the last.
fn asks() -> impl Strategy<Value = (u32, Vec<(u64, bool)>)> {
    let wait = prop_oneof![5 => Just(0), 3 => 0_u64..400, 1 => 900_u64..2500];
    (0_u32..5, prop::collection::vec((wait, prop::bool::weighted(0.8)), 0..80))
}

#[test]
fn fuzz_gate() {
    let target = Target { name: "gate", cases: 3000, within: Duration::from_millis(200) };
    hark_fuzz::values(target, asks, |(per_second, asks)| {
        let start = Instant::now();
        let mut gate = Gate::new(*per_second, start);
        let (mut at, mut second) = (start, start);
        let (mut lines, mut passed, mut told) = (0, 0, 0);
        // Of the present second: lines that passed, and reports of the host's own.
        let (mut in_second, mut reports, mut ended) = (0, 0, false);
        for (wait, line) in asks {
            at += Duration::from_millis(*wait);
            if *line && at - second >= Duration::from_secs(1) {
                (second, in_second, reports, ended) = (at, 0, 0, false);
            }
            let report = if *line {
                let (admitted, report) = gate.admit(at);
                lines += 1;
                passed += u64::from(admitted);
                in_second += u32::from(admitted);
                report
            } else {
                let report = gate.report_at_end();
                // Told at once, but for what comes after the first time in a second.
                prop_assert!(ended || gate.dropped == 0, "{} are not told of", gate.dropped);
                ended |= report.is_some();
                report
            };
            prop_assert!(report != Some(0), "nothing to tell");
            told += report.unwrap_or_default();
            reports += u32::from(report.is_some());
            prop_assert!(in_second <= *per_second && reports <= 2, "{in_second} lines, {reports} reports");
        }
        prop_assert_eq!(passed + told + gate.dropped, lines, "each line passes, is told of, or will be");
        Ok(())
    });
}
