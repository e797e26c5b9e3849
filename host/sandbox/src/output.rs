//! The one way of a plugin's words to the operator: cleaned, cut, and held to a rate.
//!
//! One [`Output`] lives as long as its `PluginHandler` (or a `describe`) and is shared by the instances that
//! follow each other, so that a plugin which floods its log and traps gets no fresh allowance. Invariant: at
//! most `log_lines` lines a second reach the log, and two of the host's own about what was dropped.

#[cfg(test)]
mod fuzz;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hark_informer::handler::Delivery;

use crate::cap::Cap;
use crate::context::Context;
use crate::guest_log::{GuestLine, GuestLog, LogLevel, LogSource};
use crate::line_buffer::LineBuffer;
use crate::text;
use crate::usage::Usage;

/// What a plugin says goes in here.
pub(crate) struct Output {
    log: Arc<dyn GuestLog>,
    usage: Arc<Usage>,
    line_bytes: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    delivery: Option<Delivery>,
    gate: Gate,
    stdout: LineBuffer,
    stderr: LineBuffer,
}

// === impl Output ===

impl Output {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            log: Arc::clone(&context.log),
            usage: Arc::clone(&context.usage),
            line_bytes: context.limits.log_line,
            inner: Mutex::new(Inner {
                delivery: None,
                gate: Gate::new(context.limits.log_lines, Instant::now()),
                stdout: LineBuffer::default(),
                stderr: LineBuffer::default(),
            }),
        })
    }

    /// From now on, lines belong to this event, or to none.
    pub(crate) fn begin(&self, delivery: Option<&Delivery>) {
        let mut inner = self.inner();
        // An attempt that was abandoned may have left half a line.
        inner.stdout = LineBuffer::default();
        inner.stderr = LineBuffer::default();
        inner.delivery = delivery.cloned();
    }

    /// The call is over: says what is unfinished, and how much was dropped.
    pub(crate) fn end(&self) {
        let mut inner = self.inner();
        for source in [LogSource::Stdout, LogSource::Stderr] {
            inner.with_stream(source, |inner, buffer| {
                buffer.finish(|line, beyond| self.emit(inner, stream_level(source), source, line, beyond));
            });
        }
        if let Some(dropped) = inner.gate.report_at_end() {
            self.tell_dropped(&inner, dropped);
        }
        inner.delivery = None;
    }

    /// A line of the guest's.
    pub(crate) fn line(&self, level: LogLevel, source: LogSource, message: &str) {
        self.emit(&mut self.inner(), level, source, message, 0);
    }

    /// Bytes that the guest wrote to a standard stream.
    pub(crate) fn write(&self, source: LogSource, bytes: &[u8]) {
        self.inner().with_stream(source, |inner, buffer| {
            buffer.push(bytes, self.line_bytes, |line, beyond| {
                self.emit(inner, stream_level(source), source, line, beyond);
            });
        });
    }

    /// A line of the host's about the plugin. Not held to the rate: there is at most one an event.
    pub(crate) fn host_line(&self, level: LogLevel, message: &str) {
        self.send(&self.inner(), level, LogSource::Host, message, 0);
    }

    /// `beyond`: bytes of the line that were dropped already.
    fn emit(&self, inner: &mut Inner, level: LogLevel, source: LogSource, message: &str, beyond: usize) {
        let (admitted, dropped) = inner.gate.admit(Instant::now());
        if let Some(dropped) = dropped {
            self.tell_dropped(inner, dropped);
        }
        if !admitted {
            return self.usage.hit(Cap::LogLines);
        }
        let line = text::clean_beyond(message, self.line_bytes, beyond);
        // Of those that came whole, only a line that was cut is longer: by the note that says so.
        if beyond > 0 || line.len() > self.line_bytes {
            self.usage.hit(Cap::LogLine);
        }
        self.send(inner, level, source, &line, 0);
    }

    fn tell_dropped(&self, inner: &Inner, dropped: u64) {
        let message = format!(
            "{dropped} of its log lines were dropped: it may write {} a second (limits.log_lines)",
            inner.gate.per_second
        );
        self.send(inner, LogLevel::Warn, LogSource::Host, &message, dropped);
    }

    fn send(&self, inner: &Inner, level: LogLevel, source: LogSource, message: &str, dropped: u64) {
        self.log.line(GuestLine { level, source, message, delivery: inner.delivery.as_ref(), dropped });
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A log that panicked leaves counters and bytes, all of which stay valid.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Lends out a stream's buffer beside the rest.
    fn with_stream(&mut self, source: LogSource, f: impl FnOnce(&mut Self, &mut LineBuffer)) {
        let mut buffer = std::mem::take(self.stream(source));
        f(self, &mut buffer);
        *self.stream(source) = buffer;
    }

    fn stream(&mut self, source: LogSource) -> &mut LineBuffer {
        if source == LogSource::Stderr { &mut self.stderr } else { &mut self.stdout }
    }
}

fn stream_level(source: LogSource) -> LogLevel {
    if source == LogSource::Stderr { LogLevel::Warn } else { LogLevel::Info }
}

/// Lets so many lines through in each second, and counts the rest.
struct Gate {
    per_second: u32,
    /// When the present second began.
    began: Instant,
    admitted: u32,
    dropped: u64,
    /// The present second's drops were told at the end of a call; later ones wait for the next second.
    told: bool,
}

impl Gate {
    fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, began: now, admitted: 0, dropped: 0, told: false }
    }

    /// Whether a line may pass, and how many were dropped if that is to be told before it.
    fn admit(&mut self, now: Instant) -> (bool, Option<u64>) {
        let mut report = None;
        if now.duration_since(self.began) >= Duration::from_secs(1) {
            report = self.take_dropped();
            self.began = now;
            self.admitted = 0;
            self.told = false;
        }
        let admitted = self.admitted < self.per_second;
        if admitted {
            self.admitted += 1;
        } else {
            self.dropped += 1;
        }
        (admitted, report)
    }

    fn report_at_end(&mut self) -> Option<u64> {
        if self.told {
            return None;
        }
        let dropped = self.take_dropped();
        self.told = dropped.is_some();
        dropped
    }

    fn take_dropped(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.dropped)).filter(|dropped| *dropped > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_lines() {
        let start = Instant::now();
        let mut gate = Gate::new(2, start);
        assert_eq!(gate.admit(start), (true, None));
        assert_eq!(gate.admit(start), (true, None));
        assert_eq!(gate.admit(start), (false, None));
        assert_eq!(gate.admit(start), (false, None));
        assert_eq!(gate.admit(start + Duration::from_secs(1)), (true, Some(2)));
    }

    #[test]
    fn drops_are_told_once_a_second_at_the_end_of_calls() {
        let start = Instant::now();
        let mut gate = Gate::new(0, start);
        gate.admit(start);
        assert_eq!(gate.report_at_end(), Some(1));
        gate.admit(start);
        assert_eq!(gate.report_at_end(), None);
        assert_eq!(gate.admit(start + Duration::from_secs(1)), (false, Some(1)));
        assert_eq!(gate.report_at_end(), Some(1));
    }
}
