//! Hark's own log: tracing events as lines on standard error.
//!
//! Used by `main` once; the configuration checks its filter here. What plugins say and what is delivered goes through `output`.

use std::io::IsTerminal;
use std::str::FromStr;

use hark_informer::client::LOG_DIRECTIVE;
use tracing_subscriber::EnvFilter;

/// What is logged unless asked otherwise: our own news, other crates' warnings.
const DEFAULT_FILTER: &str = "warn,hark=info,hark_informer=info,hark_sandbox=info,hark_apiserver=info";

/// The filter cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("log filter {filter:?}: {reason} (examples: info, debug, \"warn,hark_informer=debug\")")]
pub(crate) struct FilterError {
    filter: String,
    reason: String,
}

/// A filter that is understood, as `host.log` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

impl LogFilter {
    /// As it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parse(text).map(|_| Self(text.to_owned()))
    }
}

/// Starts logging.
///
/// # Errors
/// If the filter cannot be understood.
pub(crate) fn init(filter: Option<&str>) -> Result<(), FilterError> {
    let filter = parse(filter.unwrap_or(DEFAULT_FILTER))?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    Ok(())
}

fn parse(filter: &str) -> Result<EnvFilter, FilterError> {
    let refused = |reason: String| FilterError { filter: filter.to_owned(), reason };
    check_levels(filter).map_err(refused)?;
    // What kube logs of each failed request, the reflector reports once; the operator's own words come last.
    EnvFilter::try_new(format!("{LOG_DIRECTIVE},{filter}")).map_err(|error| refused(error.to_string()))
}

/// A word by itself must be a level: taken for the name of a module, as the filter's own grammar would, a misspelt
/// level would silence everything.
fn check_levels(filter: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];
    let words = filter.split(',').map(str::trim).filter(|word| !word.contains(['=', '[']));
    for word in words {
        if !LEVELS.contains(&word.to_ascii_lowercase().as_str()) {
            return Err(format!("{word:?} is no level; the levels are {}", LEVELS.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused() {
        for good in [DEFAULT_FILTER, "info", "DEBUG", "off", "warn,hark_informer=trace", "hark[span]=info"] {
            assert_eq!(check_levels(good), Ok(()), "{good}");
        }
        for bad in ["", "verbose", "info,", "hark_informer", "warn,2"] {
            assert!(check_levels(bad).is_err(), "{bad}");
        }
    }
}
