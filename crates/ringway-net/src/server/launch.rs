//! From a server's description to cores that listen, and to their end.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringway_runtime::io::{ListenOptions, Listener};
use ringway_runtime::{Runtime, spawn_named};
use socket2::{SockAddr, SockRef};

use super::accept::{self, Kind};
use super::bind::Binding;
use super::context::CoreContext;
use super::control::Phase;
use super::datagrams::{MakeServeDatagrams, ServeDatagrams};
use super::handle::ServerHandle;
use super::settings::Settings;
use super::shared::ServerShared;
use super::{Farewell, Server, drain};
use crate::address::Address;
use crate::connection::Connection;
use crate::error::{self, Error, Result};
use crate::keepalive;
use crate::limits;
use crate::udp::UdpSocket;

/// What hands a core's new connections to the program.
pub(crate) type Serve = Box<dyn Fn(Connection)>;

/// Starts the cores and a thread that ends them in order.
pub(crate) fn launch<M>(server: Server, make_serve: M) -> Result<ServerHandle>
where
    M: Fn() -> Serve + Clone + Send + 'static,
{
    let Server { bindings, runtime, settings, datagrams, ready, farewell } = server;
    let count = runtime.core_count();
    let addresses = bindings.addresses();
    check(&addresses, &settings, datagrams.is_some())?;
    let shared = Arc::new(ServerShared::new(settings, addresses, count));
    let runtime = runtime.start().map_err(|error| Error::io("cannot start the cores", error))?;
    shared.set_handles(runtime.cores().to_vec());
    let handle = ServerHandle::new(Arc::clone(&shared));
    for (number, core) in runtime.cores().iter().enumerate() {
        let ports: Vec<Port> =
            bindings.iter().filter_map(|at| Port::of(at, number, &datagrams)).collect();
        let (shared, make_serve) = (Arc::clone(&shared), make_serve.clone());
        core.spawn(async move || set_up(number, shared, make_serve(), ports))?.wait()??;
    }
    // The cores listen: the sockets that kept the ports for them are not needed any more.
    drop(bindings);
    if let Some(ready) = ready {
        ready(handle.addresses());
    }
    let body = move || supervise(runtime, &shared, farewell);
    let thread = thread::Builder::new().name("ringway-server".into()).spawn(body);
    thread.map_err(|error| Error::io("cannot start the server's thread", error))?;
    Ok(handle)
}

/// Whether every address has what serves it.
fn check(addresses: &[Address], settings: &Settings, has_datagrams: bool) -> Result {
    for address in addresses {
        let missing = match address {
            Address::Tls(_) if settings.tls.is_none() => {
                "a certificate: give the server one by tls(..)"
            }
            Address::Udp(_) if !has_datagrams => {
                "a handler: give the server one by on_datagram(..)"
            }
            _ => continue,
        };
        return Err(Error::new(error::Kind::Misuse, format!("{address} needs {missing}")));
    }
    Ok(())
}

/// One address as a core is told of it.
struct Port {
    address: Address,
    sock_addr: SockAddr,
    only_v6: bool,
    kind: Kind,
    /// Present on a datagram address.
    datagrams: Option<ServeDatagrams>,
}

impl Port {
    /// What core `number` has to listen on: a Unix path has one listener, on the first core.
    fn of(
        binding: &Binding,
        number: usize,
        datagrams: &Option<MakeServeDatagrams>,
    ) -> Option<Self> {
        if binding.is_unix() && number != 0 {
            return None;
        }
        Some(Self {
            address: binding.address.clone(),
            sock_addr: binding.sock_addr.clone(),
            only_v6: binding.only_v6,
            kind: Kind {
                tls: matches!(binding.address, Address::Tls(_)),
                spreads: binding.is_unix(),
            },
            datagrams: datagrams.as_ref().filter(|_| binding.is_datagram()).map(|make| make()),
        })
    }

    fn options(&self) -> ListenOptions {
        ListenOptions {
            reuse_port: !self.sock_addr.is_unix(),
            only_v6: self.only_v6,
            ..ListenOptions::default()
        }
    }

    /// Accepted connections inherit the options of their listener.
    fn listen(&self, keepalive: Option<Duration>) -> Result<Listener> {
        let set_options = |socket: SockRef<'_>| {
            // Replies are gathered by the turn, and waiting for more would only delay them.
            socket.set_tcp_nodelay(true)?;
            keepalive.map_or(Ok(()), |quiet| socket.set_tcp_keepalive(&keepalive::after(quiet)))
        };
        let bound = Listener::bind(&self.sock_addr, self.options()).and_then(|listener| {
            if !self.sock_addr.is_unix() {
                listener.with_socket(set_options)?;
            }
            Ok(listener)
        });
        bound.map_err(|error| Error::io(format!("cannot listen on {}", self.address), error))
    }
}

/// Begins to listen, on the core itself.
fn set_up(number: usize, shared: Arc<ServerShared>, serve: Serve, ports: Vec<Port>) -> Result {
    let context = CoreContext::new(number, shared, serve);
    context.install();
    for mut port in ports {
        if let Some(serve) = port.datagrams.take() {
            let socket = UdpSocket::bind_with(&port.address, &port.sock_addr, port.options())?;
            spawn_named("datagrams", serve(Rc::clone(&context), socket));
            continue;
        }
        let listener = port.listen(context.shared.settings.keepalive)?;
        let accepting = accept::accept_all(Rc::clone(&context), listener, port.kind);
        spawn_named("accept connections", accepting);
    }
    Ok(())
}

/// Waits until the server is to end, and ends it.
fn supervise(runtime: Runtime, shared: &Arc<ServerShared>, farewell: Option<Farewell>) {
    let control = &shared.control;
    if control.wait_for(Phase::Draining) == Phase::Draining {
        farewell.into_iter().for_each(say);
        control.wait_past(Phase::Draining, shared.settings.drain_delay);
    }
    if control.phase() == Phase::Draining {
        let began = Instant::now();
        each_core(&runtime, shared, drain::drain);
        control.wait_for_steps(Phase::Draining, began + shared.settings.drain_deadline);
        tracing::debug!(open = shared.open(), took = ?began.elapsed(), "the server has drained");
    }
    each_core(&runtime, shared, drain::abort);
    control.wait_for_steps(Phase::Ended, Instant::now() + limits::ABORT_WAIT);
    let ended = runtime.shutdown().map_err(|error| Error::io("a core failed", error));
    remove_unix_files(shared);
    control.end(ended);
}

/// A program that panics while it says farewell is ended in order all the same.
fn say(farewell: Farewell) {
    if catch_unwind(AssertUnwindSafe(farewell)).is_err() {
        tracing::error!("what was to be told of the shutdown panicked; the server goes on ending");
    }
}

/// Runs `step` on every core; one that cannot be reached is done with it.
fn each_core(
    runtime: &Runtime,
    shared: &Arc<ServerShared>,
    step: impl AsyncFn() + Copy + Send + 'static,
) {
    for core in runtime.cores() {
        shared.control.step_begins();
        let told = StepEnd(Arc::clone(shared));
        let run = async move || {
            step().await;
            drop(told);
        };
        let _runs_on_its_own = core.spawn(run);
    }
}

/// Tells, when dropped, that a core has done its step, or never will.
struct StepEnd(Arc<ServerShared>);

impl Drop for StepEnd {
    fn drop(&mut self) {
        self.0.control.step_ended();
    }
}

fn remove_unix_files(shared: &ServerShared) {
    for address in &shared.addresses {
        let Address::Unix(path) = address else { continue };
        if is_abstract(path) {
            continue;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, %address, "cannot remove the socket's file");
            }
            _ => {}
        }
    }
}

fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"@")
}
