//! `kubectl get --watch` with an informer: prints what happens to the objects of a kind.
//!
//! For whoever uses the crate by itself. Run it against the current context:
//!
//! ```sh
//! cargo run -p hark-informer --example watch -- v1 Pod --namespace default --labels app=web
//! ```
//!
//! Ctrl-C ends it after the event under way.

use std::sync::Arc;

use hark_informer::client::{Client, ClientOptions};
use hark_informer::factory::{Factory, SubscriptionSpec};
use hark_informer::handler::{Delivery, EventHandler, HandleFuture, Outcome};
use hark_informer::listener::{Listener, ListenerConfig};
use hark_informer::object::Ingest;
use hark_informer::resource::Selector;
use tokio::runtime::Handle;

/// Prints each event.
struct Print;

impl EventHandler for Print {
    #[expect(clippy::print_stdout, reason = "this is what it is for")]
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        let event = &delivery.event;
        println!("{:<6} {} {}", event.op(), event.key(), event.object().resource_version());
        Box::pin(async { Outcome::Ok })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(api_version), Some(kind)) = (arguments.next(), arguments.next()) else {
        return Err("usage: watch API-VERSION KIND [--namespace NAME] [--labels SELECTOR]".into());
    };
    let mut spec = SubscriptionSpec { name: kind.clone(), ..SubscriptionSpec::default() };
    spec.selector = Selector::new(api_version, kind);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or("an option without its value")?;
        match argument.as_str() {
            "--namespace" => spec.namespaces.push(value),
            "--labels" => spec.selector.label_selector = value,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let client = Client::from_options(ClientOptions::default()).await?;
    let factory = Factory::new(client, Ingest::default(), Handle::current());
    let subscriptions = factory.subscribe(&spec)?;
    let listener = Listener::new(ListenerConfig::default(), Arc::new(()));
    let stop = listener.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.close();
        }
    });
    listener.run(vec![Box::new(Print)], subscriptions).await;
    Ok(())
}
