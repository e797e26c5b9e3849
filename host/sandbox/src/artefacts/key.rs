//! What an entry was made of, and by what: the name that it is kept under.
//!
//! Used by the compiler to look artefacts up, and by the seal, which holds the key too, so that an entry under a wrong
//! name is found out. Invariant: two keys are equal only if the same bytes would be compiled in the same way by the
//! same code, so an artefact of another version of wasmtime, of another CPU or of other settings is simply not found.

use std::fmt;
use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER;
use wasmtime::Engine;

use crate::bindings::{COMPONENT_TYPE, stateful};
use crate::compiler::Compile;
use crate::hash::ContentHash;
use crate::lineage::Lineage;

/// Raised when the way from a file to a component, or the form of an entry, changes in our own code.
const REVISION: u32 = 1;

/// The crate that makes components of core modules, as pinned in `Cargo.toml` (a test compares them).
const ENCODER: &str = "wit-component =0.254.2";

/// What stands for a mode in the name of functions.
pub(super) const FUNCTIONS: &str = "functions";

/// Bytes of the maker's hash that are in a name: enough to tell makers apart; the seal has all of the key.
const SHORT: usize = 8;

/// Identifies an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// What it was made of; of functions the name of their lineage.
    content: ContentHash,
    kind: Kind,
    maker: [u8; 32],
}

/// What is under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// All of a content's code, or why there is none.
    Code(Compile),
    /// Functions of a lineage, which Cranelift compiled.
    Functions,
}

/// Everything that turns a file's bytes into machine code, as a hash. Made once for each engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maker([u8; 32]);

impl Maker {
    /// The maker that this engine is, with our own componentizing before it.
    pub(crate) fn of(engine: &Engine) -> Self {
        let mut hasher = Sha256Hasher(Sha256::new());
        REVISION.hash(&mut hasher);
        ENCODER.hash(&mut hasher);
        COMPONENT_TYPE.hash(&mut hasher);
        stateful::COMPONENT_TYPE.hash(&mut hasher);
        ADAPTER.hash(&mut hasher);
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self(hasher.0.finalize().into())
    }
}

impl Key {
    pub(crate) fn new(content: ContentHash, mode: Compile, maker: Maker) -> Self {
        Self { content, kind: Kind::Code(mode), maker: maker.0 }
    }

    /// What the functions of a lineage are kept under.
    pub(crate) fn of_functions(lineage: &Lineage, maker: Maker) -> Self {
        Self { content: *lineage.hash(), kind: Kind::Functions, maker: maker.0 }
    }

    /// Which file's bytes.
    pub(crate) fn content(&self) -> &ContentHash {
        &self.content
    }

    /// Which compiler.
    pub(crate) fn mode(&self) -> Compile {
        match self.kind {
            Kind::Code(mode) => mode,
            Kind::Functions => Compile::Optimized,
        }
    }

    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Code(mode) => mode.as_str(),
            Kind::Functions => FUNCTIONS,
        }
    }

    /// All of it as one hash, for the seal.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.content.as_bytes());
        digest.update(self.kind());
        digest.update(self.maker);
        digest.finalize().into()
    }
}

/// The name of the entry's file: `CONTENT-MODE-MAKER`, or `LINEAGE-functions-MAKER`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-", self.content, self.kind())?;
        self.maker.iter().take(SHORT).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The standard library's hashers promise no stable values; this one does.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks for it: the whole hash is taken instead.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Config;

    use super::*;

    fn maker(config: &Config) -> Maker {
        Maker::of(&Engine::new(config).expect("an engine"))
    }

    #[test]
    fn content_mode_and_engine_each_make_another_key() {
        let usual = maker(&Config::new());
        assert_eq!(usual, maker(&Config::new()), "the same settings are the same maker");
        let with_epochs = maker(Config::new().epoch_interruption(true));
        let key = |content: &[u8], mode, maker| Key::new(ContentHash::of(content), mode, maker);
        let keys = [
            key(b"a", Compile::Optimized, usual),
            key(b"b", Compile::Optimized, usual),
            key(b"a", Compile::Fast, usual),
            key(b"a", Compile::Optimized, with_epochs),
            Key::of_functions(&Lineage::of(b"a"), usual),
            Key::of_functions(&Lineage::of(b"b"), usual),
            Key::of_functions(&Lineage::of(b"a"), with_epochs),
        ];
        for (number, one) in keys.iter().enumerate() {
            for other in &keys[number + 1..] {
                assert_ne!(one.to_string(), other.to_string());
                assert_ne!(one.digest(), other.digest());
            }
        }
    }

    #[test]
    fn the_encoder_named_is_the_one_that_is_pinned() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let manifest = std::fs::read_to_string(path).expect("the workspace");
        let (name, version) = ENCODER.split_once(' ').expect("name and version");
        assert!(manifest.contains(&format!("{name} = \"{version}\"")), "raise ENCODER with the crate");
    }
}
