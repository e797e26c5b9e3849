//! How long a target runs, and on which cases.
//!
//! Invariant: without the environment that `cargo xtask fuzz` sets, every run tries the same cases.

use std::path::PathBuf;
use std::time::Duration;

/// Read from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// With the tests: so many cases as the target says, always the same.
    Test,
    /// For a time, on all cores. `HARK_FUZZ_SECONDS`, `HARK_FUZZ_SEED`; failures are saved to `HARK_FUZZ_OUT`.
    Long { time: Duration, seed: u64, out: PathBuf },
    /// One file again that a long run saved: `HARK_FUZZ_REPLAY`.
    Replay(PathBuf),
}

impl Mode {
    /// What the environment asks for.
    pub(crate) fn from_env() -> Self {
        Self::of(&|name| std::env::var(name).ok())
    }

    fn of(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        if let Some(file) = variable("HARK_FUZZ_REPLAY") {
            return Self::Replay(file.into());
        }
        let Some(seconds) = variable("HARK_FUZZ_SECONDS").and_then(|text| text.parse().ok()) else {
            return Self::Test;
        };
        Self::Long {
            time: Duration::from_secs(seconds),
            seed: variable("HARK_FUZZ_SEED").and_then(|text| text.parse().ok()).unwrap_or_default(),
            out: variable("HARK_FUZZ_OUT").unwrap_or_else(|| ".".to_owned()).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses() {
        let long = Mode::Long { time: Duration::from_secs(5), seed: 7, out: "out".into() };
        let all = [("HARK_FUZZ_SECONDS", "5"), ("HARK_FUZZ_SEED", "7"), ("HARK_FUZZ_OUT", "out")];
        let of = |set: &[(&str, &str)]| {
            Mode::of(&|name| set.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[]), Mode::Test);
        assert_eq!(of(&all), long);
        assert_eq!(
            of(&[("HARK_FUZZ_SECONDS", "5"), ("HARK_FUZZ_REPLAY", "a.bin")]),
            Mode::Replay("a.bin".into())
        );
    }
}
