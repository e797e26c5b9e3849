//! The line with which a host announces that a version has taken over, and what it says of the time.

use anyhow::{Context, Result};

/// What the line says, in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// From the change to the new handler in place.
    pub total: f64,
    /// The parts by their names, in order.
    pub parts: Vec<(String, f64)>,
    /// The code was found in the artefact cache.
    pub cached: bool,
}

impl Parts {
    /// Of a line of the log or the screen; none if it announces no reload of this plugin.
    ///
    /// # Errors
    /// If it does, in other words than these.
    pub fn of(line: &str, plugin: &str) -> Result<Option<Self>> {
        Self::after(&format!("{plugin} reloaded: "), line)
    }

    /// The same of a plugin's first version.
    ///
    /// # Errors
    /// As [`Parts::of`].
    pub fn of_start(line: &str, plugin: &str) -> Result<Option<Self>> {
        Self::after(&format!("{plugin} started: "), line)
    }

    fn after(head: &str, line: &str) -> Result<Option<Self>> {
        let Some((_, after)) = line.split_once(head) else { return Ok(None) };
        let parse = || {
            let (_, after) = after.rsplit_once(") in ")?;
            let (total, after) = after.split_once(" ms (")?;
            let (parts, _) = after.split_once(" ms); subscriptions: ")?;
            let cached = parts.contains(" (cached)");
            let parts = parts.replace(" (cached)", "");
            let part = |part: &str| {
                let (name, millis) = part.split_once(' ')?;
                Some((name.to_owned(), millis.parse().ok()?))
            };
            let parts = parts.split(", ").map(part).collect::<Option<_>>()?;
            Some(Self { total: total.parse().ok()?, parts, cached })
        };
        parse().map(Some).with_context(|| format!("not the line of a reload: {line}"))
    }

    /// How far the parts together are from the whole, in roundings of the coarsest of these numbers.
    pub fn gap(&self) -> f64 {
        let sum: f64 = self.parts.iter().map(|(_, millis)| millis).sum();
        // Whole milliseconds, but for small numbers: `Millis` in the host.
        let unit = if self.total < 9.95 { 0.1 } else { 1.0 };
        (self.total - sum).abs() / (unit / 2.0)
    }

    /// One of the parts.
    pub fn part(&self, name: &str) -> Option<f64> {
        self.parts.iter().find(|(part, _)| part == name).map(|(_, millis)| *millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_read_and_other_lines_are_not() {
        let line = "12:00:00 a | a reloaded: 0a -> 0b (a (b) in c 1.0) in 93 ms \
                    (detect 12, read 0.4, compile 61 (cached), link 0.3, start 4.2, swap 1.1 ms); subscriptions: 1 kept";
        let parts = Parts::of(line, "a").expect("its words").expect("its line");
        assert_eq!((parts.total, parts.cached, parts.parts.len()), (93.0, true, 6));
        assert_eq!((parts.part("compile"), parts.part("swap")), (Some(61.0), Some(1.1)));
        assert_eq!(parts.part("describe"), None);
        assert!((parts.gap() - 28.0).abs() < 1e-6, "79 of 93: {}", parts.gap());
        assert_eq!(Parts::of(line, "b").expect("no line of its"), None);
        assert_eq!(Parts::of("a started: 0a", "a").expect("no reload"), None);
        let start = "a started: a 1.0 (0a) in 5.0 ms (detect 1.0, read 0.5, start 3.4, swap 0.1 ms); subscriptions: s";
        let start = Parts::of_start(start, "a").expect("its words").expect("its line");
        assert!(start.gap() < 1e-6 && start.part("start") == Some(3.4), "{start:?}");
        assert!(Parts::of("a reloaded: at last", "a").is_err());
    }
}
