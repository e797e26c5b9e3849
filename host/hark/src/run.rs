//! `hark run`: plugins against a cluster.

use std::sync::Arc;

use hark_informer::client::{Client, ClientOptions};

use crate::cli::RunArgs;
use crate::host::{self, ConfigFile, Mode};
use crate::output::Output;

/// Runs until a signal comes. An unreachable cluster is waited for; a kubeconfig that cannot be read is not.
pub(crate) async fn run(args: RunArgs, config: ConfigFile, output: Arc<Output>) -> anyhow::Result<()> {
    let options = ClientOptions { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    let client = Client::from_options(options).await?;
    host::run_plugins(client, &args.common, config, output, Mode::Run).await
}
