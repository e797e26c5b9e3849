//! A loaded plugin: compiled, linked, ready to be instantiated any number of times.
//!
//! Made by `Engine::load`, shared by whoever runs it. Invariant: immutable; holds no guest state.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::bindings::hark::plugin::plugin_types as wit;
use crate::compiler::{Compile, How};
use crate::context::Context;
use crate::description::{self, Description};
use crate::guest::Exports;
use crate::hash::ContentHash;
use crate::instance::{Broken, Instance, Purpose};
use crate::outcome::{self, Fault, FaultKind};
use crate::output::Output;
use crate::thread_clock::ThreadClock;
use crate::ticker::Ticker;

/// A plugin that can be run. Cheap to clone; clones share the compiled code.
#[derive(Clone)]
pub struct Plugin {
    code: Arc<Code>,
    how: How,
}

/// What plugins with the same content share.
pub(crate) struct Code {
    exports: Exports,
    hash: ContentHash,
    size: usize,
    mode: Compile,
    /// Ticks while one of their calls is under way.
    ticker: Arc<Ticker>,
}

/// Why a plugin has no description: this version cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescribeError {
    /// The plugin itself says so: `describe` gave an error.
    #[error("the plugin refuses to run: {0}")]
    Refused(String),
    /// The description breaks the contract: everything that is wrong with it.
    #[error("its description is wrong: {}", .0.join("; "))]
    Invalid(Vec<String>),
    /// The plugin broke.
    #[error("describe broke: {0}")]
    Trap(String),
    /// The plugin took too long.
    #[error("describe took too long: {0}")]
    Timeout(String),
    /// The host has no memory for an instance, for now: not the plugin's fault.
    #[error("cannot ask it to describe itself: {0}")]
    Starved(String),
}

// === impl Plugin ===

impl Plugin {
    pub(crate) fn new(
        exports: Exports,
        hash: ContentHash,
        size: usize,
        how: How,
        ticker: Arc<Ticker>,
    ) -> Self {
        let mode = how.mode;
        Self { code: Arc::new(Code { exports, hash, size, mode, ticker }), how }
    }

    /// A plugin of code that is loaded already.
    pub(crate) fn again(code: Arc<Code>) -> Self {
        let how = How { mode: code.mode, cached: true, ..How::default() };
        Self { code, how }
    }

    /// The hash of the file's bytes.
    pub fn hash(&self) -> &ContentHash {
        &self.code.hash
    }

    /// The number of the file's bytes.
    pub fn size(&self) -> usize {
        self.code.size
    }

    /// How its code came about.
    pub fn how(&self) -> &How {
        &self.how
    }

    /// What it shares with others, without keeping it alive.
    pub(crate) fn code(&self) -> Weak<Code> {
        Arc::downgrade(&self.code)
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.code.exports
    }

    pub(crate) fn ticker(&self) -> &Arc<Ticker> {
        &self.code.ticker
    }

    /// Asks the plugin what it is and wants, in an instance of its own that is dropped afterwards. It may use
    /// the settings and write to the log; its cache is not synced.
    ///
    /// # Errors
    /// [`DescribeError`] if it gives none, or one that breaks the contract.
    pub async fn describe(&self, context: &Context) -> Result<Description, DescribeError> {
        let output = Output::new(context);
        let _clock = ThreadClock::start(&context.usage);
        let answer = self.ask(context, &output).await.map_err(|broken| broken.fault(&context.limits));
        output.end();
        match answer {
            Ok(Ok(description)) => description::check(description).map_err(DescribeError::Invalid),
            Ok(Err(message)) => Err(DescribeError::Refused(outcome::message(&message))),
            Err(Fault { kind, cap, message }) => {
                cap.into_iter().for_each(|cap| context.usage.hit(cap));
                Err(match kind {
                    FaultKind::Trap => DescribeError::Trap(message),
                    FaultKind::Timeout => DescribeError::Timeout(message),
                    FaultKind::Starved => {
                        context.usage.starve();
                        DescribeError::Starved(message)
                    }
                })
            }
        }
    }

    async fn ask(
        &self,
        context: &Context,
        output: &Arc<Output>,
    ) -> Result<Result<wit::Description, String>, Broken> {
        Instance::make(self, context, output, Purpose::Describe).await?.describe().await
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({}, {} bytes)", self.hash().short(), self.size())
    }
}
