//! rust-panic: panics on every event of an object named `poison`; logs `<op> <key>` for others and answers ok.
//! For the SDK's promise that a panic's message reaches the log before the trap.

use hark_guest::{Added, Described, Failure, Outcome, Plugin, Subscription, Target, Updated, log};

struct RustPanic;

impl Plugin for RustPanic {
    fn describe() -> Described {
        Ok(hark_guest::description!().watch(Subscription::new("configmaps", "v1", "ConfigMap")))
    }

    fn start() -> Result<Self, Failure> {
        Ok(Self)
    }

    fn on_add(&mut self, event: Added) -> Outcome {
        handle("add", event.target())
    }

    fn on_update(&mut self, event: Updated) -> Outcome {
        handle("update", event.target())
    }
}

fn handle(op: &str, target: &Target) -> Outcome {
    assert!(target.name != "poison", "{target} is poison");
    log::info!("{op} {target}");
    Ok(())
}

hark_guest::export!(RustPanic);
