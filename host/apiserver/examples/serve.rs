//! Serves on a port and writes a kubeconfig, for trying kubectl by hand:
//! `cargo run -p hark-apiserver --example serve -- 127.0.0.1:8080 KUBECONFIG`

use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:0".into()).parse()?;
    let kubeconfig = args.next().unwrap_or_else(|| "kubeconfig".into());
    let server =
        hark_apiserver::Server::start(hark_apiserver::Config { address, ..Default::default() }).await?;
    server.write_kubeconfig(Path::new(&kubeconfig))?;
    eprintln!("serving on {}; kubeconfig in {kubeconfig}", server.url());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
