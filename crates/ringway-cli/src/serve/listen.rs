//! Listeners on every core, and what becomes of the connections they accept.

use std::error::Error;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use ringway_runtime::CoreHandle;
use ringway_runtime::io::{Incoming, ListenOptions, Listener, Next, Stream, StreamLimits};
use socket2::SockAddr;

use super::discard;
use super::tally::Totals;
use crate::args::{Scheme, ServeConfig, Service, Uri};

/// The addresses that are served; dropping it removes the socket files.
pub(super) struct Listening {
    uris: Vec<String>,
    socket_files: Vec<PathBuf>,
}

impl Listening {
    pub(super) fn uris(&self) -> &[String] {
        &self.uris
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for path in &self.socket_files {
            _ = std::fs::remove_file(path);
        }
    }
}

/// Binds every address of `config` and serves it on `cores`.
pub(super) fn start(
    config: &ServeConfig,
    cores: &[CoreHandle],
    totals: &Arc<Totals>,
) -> Result<Listening, Box<dyn Error>> {
    let mut listening = Listening { uris: Vec::new(), socket_files: Vec::new() };
    for uri in &config.listen {
        let failed = |error: io::Error| format!("cannot listen on {uri}: {error}");
        let mut address = resolve(uri).map_err(failed)?;
        let shared = uri.scheme() == Scheme::Tcp && cores.len() > 1;
        let cores = if shared { cores } else { &cores[..1] };
        for core in cores {
            let (service, totals, wanted) = (config.service, Arc::clone(totals), address.clone());
            let bound = core.spawn(async move || bind(&wanted, shared, service, totals))?.wait()?;
            address = bound.map_err(failed)?;
        }
        if let Some(path) = address.as_pathname() {
            listening.socket_files.push(path.to_owned());
        }
        listening.uris.push(match address.as_socket() {
            Some(address) => format!("tcp://{address}"),
            None => uri.to_string(),
        });
    }
    Ok(listening)
}

fn resolve(uri: &Uri) -> io::Result<SockAddr> {
    let (_, rest) = uri.as_str().split_once("://").expect("checked when it was parsed");
    if uri.scheme() == Scheme::Unix {
        return SockAddr::unix(rest);
    }
    let mut found = rest.to_socket_addrs()?;
    let address = found.next().ok_or_else(|| io::Error::other("the name has no address"))?;
    Ok(address.into())
}

fn bind(
    address: &SockAddr,
    reuse_port: bool,
    service: Service,
    totals: Arc<Totals>,
) -> io::Result<SockAddr> {
    let options = ListenOptions { reuse_port, ..ListenOptions::default() };
    let listener = Listener::bind(address, options)?;
    let bound = listener.local_addr().clone();
    if bound.as_socket().is_some() {
        listener.with_socket(|socket| socket.set_tcp_nodelay(true))?;
    }
    ringway_runtime::spawn(accept(listener, service, totals));
    Ok(bound)
}

async fn accept(listener: Listener, service: Service, totals: Arc<Totals>) {
    let limits = Rc::new(StreamLimits::default());
    loop {
        match listener.accept().await.and_then(|accepted| accepted.into_stream(&limits)) {
            Ok(stream) => match service {
                Service::Echo => echo(stream),
                Service::Discard => discard::bytes(stream),
                Service::DiscardFramed => discard::packets(stream, Arc::clone(&totals)),
            },
            Err(error) => eprintln!("ringway: accepting: {error}"),
        }
    }
}

fn echo(stream: Stream) {
    stream.on_incoming(|stream, incoming| match incoming {
        Incoming::Data(view) => {
            stream.send(view);
            Next::Continue
        }
        Incoming::Drained => Next::Continue,
        Incoming::Eof | Incoming::Failed(_) => Next::Close,
    });
}
