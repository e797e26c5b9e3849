//! The caps on what a plugin may use, each with the name of its setting.
//!
//! Counted in `usage` when they are hit, named by `outcome` in messages. Invariant: each has a default, a setting
//! and a name for metrics, which is its setting's last word.

/// Something of which a plugin has a limited amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cap {
    /// Linear memory of an instance.
    Memory,
    /// Elements of an instance's tables.
    Tables,
    /// Core instances, tables and memories that an instance is made of.
    Instances,
    /// Handles of an instance, and what they stand for.
    Handles,
    /// The stack of guest code.
    Stack,
    /// What a guest hands over in one call.
    CallBytes,
    /// What a guest hands over while it describes itself.
    Describe,
    /// What a guest saves for the next instance.
    State,
    /// What one answer of the cache holds.
    Page,
    /// An object that is handed over.
    Object,
    /// Log lines in a second: each dropped line is a hit.
    LogLines,
    /// The length of a log line: each cut line is a hit.
    LogLine,
    /// CPU time of a call.
    Deadline,
    /// The time that one host call takes.
    HostCall,
    /// The time that an event takes.
    Budget,
}

impl Cap {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 15] = [
        Self::Memory,
        Self::Tables,
        Self::Instances,
        Self::Handles,
        Self::Stack,
        Self::CallBytes,
        Self::Describe,
        Self::State,
        Self::Page,
        Self::Object,
        Self::LogLines,
        Self::LogLine,
        Self::Deadline,
        Self::HostCall,
        Self::Budget,
    ];

    /// The word used in metrics.
    pub fn as_str(self) -> &'static str {
        let setting = self.setting();
        setting.split_once('.').map_or(setting, |(_, word)| word)
    }

    /// The key in `hark.toml`.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Memory => "limits.memory",
            Self::Tables => "limits.tables",
            Self::Instances => "limits.instances",
            Self::Handles => "limits.handles",
            Self::Stack => "host.wasm_stack",
            Self::CallBytes => "limits.call_bytes",
            Self::Describe => "limits.describe",
            Self::State => "limits.state",
            Self::Page => "limits.page",
            Self::Object => "limits.object",
            Self::LogLines => "limits.log_lines",
            Self::LogLine => "limits.log_line",
            Self::Deadline => "limits.deadline",
            Self::HostCall => "limits.host_call",
            Self::Budget => "limits.budget",
        }
    }

    /// Its place in [`Cap::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_has_its_place_and_a_name_of_its_own() {
        let places: Vec<usize> = Cap::ALL.iter().map(|cap| cap.index()).collect();
        assert_eq!(places, (0..Cap::ALL.len()).collect::<Vec<_>>());
        let names: HashSet<&str> = Cap::ALL.iter().map(|cap| cap.as_str()).collect();
        assert_eq!(names.len(), Cap::ALL.len());
        assert_eq!(Cap::HostCall.as_str(), "host_call");
    }
}
