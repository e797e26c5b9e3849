//! Is a file that wasmtime refuses broken, or does it use a proposal that this host does not have?
//!
//! Asked by `load` and the compiler about files that were refused, after `bounds` has let them pass. Invariant: a file
//! is said to use what is not supported only if it is valid with every proposal that the parser knows, and wasmtime's
//! own validation, not its compiler, refused it.

use wasmparser::{Validator, WasmFeatures};

use super::LoadError;
use super::error::{chain, detail};

/// Words of wasmtime's in its errors about what its validation, and not its compiler, refuses.
const INVALID: [&str; 2] = ["Invalid input WebAssembly code", "failed to parse WebAssembly module"];

/// Why a core module is refused that wasmtime says is not valid.
pub(super) fn invalid(module: &[u8], error: &wasmtime::Error) -> LoadError {
    if is_valid_somewhere(module) {
        return LoadError::Unsupported(detail(&error.root_cause().to_string()));
    }
    LoadError::Invalid(chain(error))
}

/// Why a component is refused that wasmtime does not compile.
pub(crate) fn not_compiled(component: &[u8], error: &wasmtime::Error) -> LoadError {
    let message = chain(error);
    if INVALID.iter().any(|words| message.contains(words)) && is_valid_somewhere(component) {
        return LoadError::Unsupported(detail(&error.root_cause().to_string()));
    }
    LoadError::Compile(message)
}

fn is_valid_somewhere(bytes: &[u8]) -> bool {
    Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok()
}
