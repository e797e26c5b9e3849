//! The plugins that are loaded at the moment, by content: many files with the same content share one.
//!
//! Used by `Engine::load`. One plugin under many names, each with settings of its own, would otherwise have its code and
//! the descriptions of its types in memory as often. Invariant: it keeps no plugin alive.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, Weak};

use crate::compiler::Compile;
use crate::hash::ContentHash;
use crate::plugin::{Code, Plugin};

/// See the file's head.
#[derive(Default)]
pub(crate) struct Loaded(Mutex<HashMap<(ContentHash, Compile), Weak<Code>>>);

impl Loaded {
    /// The plugin with this content that was loaded when this mode was asked for, and still is.
    pub(crate) fn find(&self, content: &ContentHash, asked: Compile) -> Option<Plugin> {
        let plugins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plugins.get(&(*content, asked))?.upgrade().map(Plugin::again)
    }

    /// Remembers a plugin, for as long as somebody has it.
    pub(crate) fn remember(&self, asked: Compile, plugin: &Plugin) {
        let mut plugins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plugins.retain(|_, code| code.strong_count() > 0);
        plugins.insert((*plugin.hash(), asked), plugin.code());
    }
}
