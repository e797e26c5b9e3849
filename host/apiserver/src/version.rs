//! What the server says it is: the version whose behaviour it imitates, marked as not the real one.
//!
//! Used by `/version`, and by documents that carry it.

use serde_json::json;

/// A version that clients parse as the one imitated.
pub(crate) const GIT_VERSION: &str = "v1.36.2+hark";

/// `/version`
pub(crate) fn document() -> String {
    let document = json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    });
    format!("{document:#}")
}
