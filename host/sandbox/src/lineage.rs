//! Which contents are versions of one plugin.
//!
//! Named by whoever loads plugins; the compiler takes from the version before what has not changed. Invariant: it says
//! nothing of what is in a file, so a wrong lineage costs time and nothing else.

use crate::hash::ContentHash;

/// The versions of one plugin, which resemble each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lineage(ContentHash);

impl Lineage {
    /// The lineage with this name: the path of a file that is saved again and again, say.
    pub fn of(name: impl AsRef<[u8]>) -> Self {
        Self(ContentHash::of(name.as_ref()))
    }

    pub(crate) fn hash(&self) -> &ContentHash {
        &self.0
    }

    /// From the bytes of [`Lineage::hash`].
    pub(crate) fn from_hash(hash: [u8; 32]) -> Self {
        Self(ContentHash::from_bytes(hash))
    }
}
