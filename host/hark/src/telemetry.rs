//! Hark's own log: tracing events as lines on standard error.
//!
//! Used by `main` once. What plugins say and what is delivered goes through `output`.

use std::io::IsTerminal;

use hark_informer::client::LOG_DIRECTIVE;
use tracing_subscriber::EnvFilter;

/// What is logged unless asked otherwise: our own news, other crates' warnings.
const DEFAULT_FILTER: &str = "warn,hark=info,hark_informer=info,hark_sandbox=info,hark_apiserver=info";

/// The filter cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("log filter {filter:?}: {source} (examples: info, debug, warn,hark_informer=debug)")]
pub(crate) struct FilterError {
    filter: String,
    source: tracing_subscriber::filter::ParseError,
}

/// Starts logging.
///
/// # Errors
/// If the filter cannot be understood.
pub(crate) fn init(filter: Option<&str>) -> Result<(), FilterError> {
    let filter = filter.unwrap_or(DEFAULT_FILTER);
    // What kube logs of each failed request, the reflector reports once; the operator's own words come last.
    let filter = EnvFilter::try_new(format!("{LOG_DIRECTIVE},{filter}"))
        .map_err(|source| FilterError { filter: filter.to_owned(), source })?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    Ok(())
}
