//! Random reloads under a stream of changes, and an executable statement of what is promised about delivery, which the
//! trace is held against.
//!
//! Used by the suite in `tests/tests/reloads`. What the server did is written down by whoever did it; what the plugins
//! were told is in the trace; which versions there were is in the log. The model says whether the three fit together.
//! Invariant: it knows nothing of how Hark works, only what the README promises; of its times, those that the README names.
//!
//! | file | subject |
//! | --- | --- |
//! | `plan` | builds of one plugin that differ in what they want and do |
//! | `history` | what the server did, object by object |
//! | `stream` | those who do it |
//! | `sight` | what a subscription sees of the history |
//! | `cover` | that each change is told once |
//! | `account` | one life of a plugin: its versions, its subscriptions, what each was told |
//! | `trials` | which versions were on trial, and what came of that |
//! | `memory` | what becomes of a plugin's memory at its reloads |
//! | `model` | all lives of all plugins, and which line of the trace belongs to which |
//! | `chance` | random builds, random configurations, random steps |
//! | `config` | the operator's file |
//! | `news` | what Hark's log says of its plugins |
//! | `status` | what Hark says of a plugin when asked |
//! | `stage` | what those share who do the steps |
//! | `actor` | does the steps at one plugin |
//! | `campaign` | a whole run |

pub mod account;
pub mod actor;
pub mod campaign;
pub mod chance;
pub mod config;
pub mod cover;
pub mod history;
pub mod memory;
pub mod model;
pub mod news;
pub mod plan;
pub mod sight;
pub mod stage;
pub mod status;
pub mod stream;
pub mod trials;
