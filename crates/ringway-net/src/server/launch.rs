//! Starting a server's cores, and supervising them until the end.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ringway_runtime::io::{ListenOptions, Listener};
use ringway_runtime::{CoreHandle, Deadline, Runtime, contain, drop_contained, spawn_named};
use socket2::{SockAddr, SockRef, Socket};

use super::accept::{ListenerKind, ServerListener};
use super::bind::{Binding, Held, Reserve};
use super::context::{CoreContext, Serve};
use super::control::Phase;
use super::core_number::CoreNumber;
use super::datagrams::{MakeServeDatagrams, ServeDatagrams};
use super::handle::ServerHandle;
use super::hung::{self, Hung};
use super::log::log;
use super::settings::Settings;
use super::shared::ServerShared;
use super::unix_path::UnixPath;
use super::{Ready, Server, ShutdownHook, drain};
use crate::address::Address;
use crate::error::{self, Error, Result};
use crate::keepalive;
use crate::limits;
use crate::udp::{self, UdpSocket};

/// A server that listens but has not been announced yet.
pub(crate) struct Launched {
    pub(crate) handle: ServerHandle,
    ready_hooks: Vec<Ready>,
}

impl Launched {
    /// Calls the program's `on_ready` and `on_started` callbacks, in their order.
    pub(crate) fn announce(self) -> ServerHandle {
        for ready in self.ready_hooks {
            ready(&self.handle);
        }
        self.handle
    }
}

/// Starts the cores, and a supervisor thread that ends them in order.
pub(crate) fn launch<M>(server: Server, make_serve: M) -> Result<Launched>
where
    M: Fn() -> Serve + Clone + Send + 'static,
{
    let Server { bindings, runtime, settings, datagrams, ready_hooks, shutdown_hooks, hang_hooks } =
        server;
    let count = runtime.core_count();
    let addresses = bindings.addresses();
    check(&addresses, &settings, datagrams.is_some())?;
    let called = CoreNumber::take(count)?;
    let mut shared = ServerShared::new(settings, addresses, &called, !shutdown_hooks.is_empty());
    shared.hung = Hung::new(count, hang_hooks);
    let shared = Arc::new(shared);
    let runtime = runtime.start().map_err(|error| Error::io("cannot start the cores", error))?;
    shared.set_handles(runtime.cores().to_vec());
    hung::watch(&shared);
    // Every core must be able to take connections before any of them accepts one.
    for ((number, core), called) in runtime.cores().iter().enumerate().zip(called) {
        let (shared, make_serve) = (Arc::clone(&shared), make_serve.clone());
        core.spawn(async move || set_up(number, called, shared, make_serve()))?.wait()?;
    }
    let paths = listen(runtime.cores(), bindings.into_list(), &datagrams)?;
    let handle = ServerHandle::new(Arc::clone(&shared));
    if !shutdown_hooks.is_empty() {
        let shared = Arc::clone(&shared);
        spawn_thread("ringway-on-shutdown", move || run_hooks_when_asked(shutdown_hooks, &shared))?;
    }
    spawn_thread("ringway-server", move || supervise(runtime, &shared, &paths))?;
    Ok(Launched { handle, ready_hooks })
}

fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result {
    let spawned = thread::Builder::new().name(name.into()).spawn(body);
    spawned.map(drop).map_err(|error| Error::io("cannot start the server's thread", error))
}

/// Checks that every address has the settings that serve it.
fn check(addresses: &[Address], settings: &Settings, has_datagrams: bool) -> Result {
    for address in addresses {
        let missing = match address {
            Address::Tls(_) if settings.tls.is_none() => "a certificate: set one with tls(..)",
            Address::Udp(_) if !has_datagrams => "a handler: set one with on_datagram(..)",
            _ => continue,
        };
        return Err(Error::new(error::Kind::Misuse, format!("{address} needs {missing}")));
    }
    Ok(())
}

/// Prepares a core for connections; runs on the core itself.
fn set_up(number: usize, called: CoreNumber, shared: Arc<ServerShared>, serve: Serve) {
    let context = CoreContext::new(number, called, shared, serve);
    context.install();
    spawn_named("server's end", drain::follow(context));
}

/// Lets the cores listen. The first core comes last, because it takes over the sockets that
/// reserved the addresses. Returns the files of Unix sockets.
fn listen(
    cores: &[CoreHandle],
    bindings: Vec<Binding>,
    datagrams: &Option<MakeServeDatagrams>,
) -> Result<Vec<Arc<UnixPath>>> {
    for core in &cores[1..] {
        let ports = bindings.iter().flat_map(|binding| Port::shared(binding, datagrams));
        open_on(core, ports.collect())?;
    }
    let paths = bindings.iter().filter_map(|binding| match &binding.held {
        Held::Unix { path, .. } => path.clone(),
        Held::Inet { .. } => None,
    });
    let paths = paths.collect();
    let ports = bindings.into_iter().flat_map(|binding| Port::whole(binding, datagrams));
    open_on(&cores[0], ports.collect())?;
    Ok(paths)
}

fn open_on(core: &CoreHandle, ports: Vec<Port>) -> Result {
    let open = async move || {
        let context = CoreContext::current().expect("set_up made it before any core listens");
        ports.into_iter().try_for_each(|port| port.open(&context))
    };
    core.spawn(open)?.wait()?
}

/// One socket of one address, as a core gets it.
struct Port {
    address: Address,
    at: At,
    /// `Some` for a datagram address.
    datagrams: Option<ServeDatagrams>,
}

enum At {
    /// The core binds its own socket beside those of other cores. `reserve` held the address until
    /// now; its datagrams are taken over.
    Shared { sock_addr: SockAddr, only_v6: bool, reserve: Option<Socket> },
    /// The only socket of its address, which listens already.
    Alone { listening: Socket, path: Option<Arc<UnixPath>> },
}

impl Port {
    /// Returns the sockets that a core other than the first opens.
    fn shared(binding: &Binding, datagrams: &Option<MakeServeDatagrams>) -> Vec<Self> {
        let Held::Inet { reserves, .. } = &binding.held else { return Vec::new() };
        let reserves = reserves.iter().map(|reserve| At::Shared {
            sock_addr: reserve.sock_addr.clone(),
            only_v6: reserve.only_v6,
            reserve: None,
        });
        reserves.map(|at| Self::new(&binding.address, at, datagrams)).collect()
    }

    /// Returns the sockets that the first core opens.
    fn whole(binding: Binding, datagrams: &Option<MakeServeDatagrams>) -> Vec<Self> {
        let at = match binding.held {
            Held::Unix { listening, path } => vec![At::Alone { listening, path }],
            Held::Inet { reserves, .. } => Vec::from_iter(reserves.into_iter().map(|reserve| {
                let Reserve { socket, sock_addr, only_v6 } = reserve;
                At::Shared { sock_addr, only_v6, reserve: Some(socket) }
            })),
        };
        at.into_iter().map(|at| Self::new(&binding.address, at, datagrams)).collect()
    }

    fn new(address: &Address, at: At, datagrams: &Option<MakeServeDatagrams>) -> Self {
        let serves_datagrams = matches!(address, Address::Udp(_));
        let datagrams = datagrams.as_ref().filter(|_| serves_datagrams).map(|make| make());
        Self { address: address.clone(), at, datagrams }
    }

    /// Begins to listen; runs on the core itself.
    fn open(self, context: &Rc<CoreContext>) -> Result {
        let cannot = |error| Error::io(format!("cannot listen on {}", self.address), error);
        let tls = matches!(self.address, Address::Tls(_));
        let listener = match self.at {
            At::Alone { listening, path } => {
                let listener = Listener::adopt(listening.into()).map_err(cannot)?;
                ServerListener { listener, kind: ListenerKind { tls, unix: true }, path }
            }
            At::Shared { sock_addr, only_v6, reserve } => {
                let options =
                    ListenOptions { reuse_port: true, only_v6, ..ListenOptions::default() };
                if let Some(serve) = self.datagrams {
                    let socket = UdpSocket::bind_with(&self.address, &sock_addr, options)?;
                    let early = reserve.map(udp::take_all).unwrap_or_default();
                    spawn_named("datagrams", serve(Rc::clone(context), socket, early));
                    return Ok(());
                }
                let keepalive = context.shared.settings.keepalive;
                let listener = listen_at(&sock_addr, options, keepalive).map_err(cannot)?;
                ServerListener { listener, kind: ListenerKind { tls, unix: false }, path: None }
            }
        };
        spawn_named("accept connections", listener.serve(Rc::clone(context)));
        Ok(())
    }
}

/// Listens with the options that accepted connections inherit.
fn listen_at(
    sock_addr: &SockAddr,
    options: ListenOptions,
    keepalive: Option<Duration>,
) -> io::Result<Listener> {
    let listener = Listener::bind(sock_addr, options)?;
    listener.with_socket(|socket: SockRef<'_>| {
        // Replies are gathered within a turn; waiting for more would only delay them.
        socket.set_tcp_nodelay(true)?;
        keepalive.map_or(Ok(()), |quiet| socket.set_tcp_keepalive(&keepalive::after(quiet)))
    })?;
    Ok(listener)
}

/// Waits until the server has to end, and ends it.
fn supervise(runtime: Runtime, shared: &Arc<ServerShared>, paths: &[Arc<UnixPath>]) {
    let control = &shared.control;
    let mut failed = runtime.failed();
    let asks_to_end = Waker::from(Arc::new(EndOfACore(Arc::clone(shared))));
    let has_failed = Pin::new(&mut failed).poll(&mut Context::from_waker(&asks_to_end));
    if has_failed.is_ready() {
        asks_to_end.wake_by_ref();
    }
    if control.wait_for(Phase::Asked) == Phase::Asked {
        let delay = after(shared.settings.drain_delay);
        control.wait_for_hooks(after(limits::SHUTDOWN_HOOKS_WAIT));
        control.wait_past(Phase::Asked, delay);
        control.advance(Phase::Draining);
    }
    if control.phase() == Phase::Draining {
        let began = Instant::now();
        let deadline = after(shared.settings.drain_timeout);
        let drained = control.wait_drained(deadline, || shared.open() == 0);
        let (open, took) = (shared.open(), began.elapsed());
        log(|| tracing::debug!(drained, open, ?took, "the drain is over"));
    }
    control.advance(Phase::Aborting);
    control.wait_aborted(after(limits::ABORT_WAIT));
    let ended = end(runtime);
    // A core that did not end in time has not removed its file.
    paths.iter().for_each(|path| path.remove());
    control.end(ended);
}

/// Makes a server that has lost a core drain: otherwise its other cores would serve on with less,
/// unnoticed.
struct EndOfACore(Arc<ServerShared>);

impl Wake for EndOfACore {
    fn wake(self: Arc<Self>) {
        self.0.control.advance(Phase::Asked);
    }
}

fn after(wait: Duration) -> Deadline {
    Deadline::after(Instant::now(), wait)
}

/// Ends the cores. A core that does not end in time, because a handler blocks its thread, is left
/// to the end of the process, so that the program can go on.
fn end(runtime: Runtime) -> Result {
    let (tell, ended) = mpsc::sync_channel(1);
    let body = move || drop(tell.send(runtime.shutdown()));
    spawn_thread("ringway-ending", body)?;
    match ended.recv_timeout(limits::END_WAIT) {
        Ok(ended) => ended.map_err(|error| Error::io("a core failed", error)),
        Err(_late) => {
            let what = "a core has not ended in time: a handler blocks its thread, or the kernel is slow to \
                 close its sockets";
            log(|| tracing::error!("{what}"));
            Err(Error::new(error::Kind::Timeout, what))
        }
    }
}

/// Runs the program's shutdown hooks, on a thread of their own, once a shutdown is requested.
fn run_hooks_when_asked(shutdown_hooks: Vec<ShutdownHook>, shared: &ServerShared) {
    let control = &shared.control;
    for hook in shutdown_hooks {
        match control.wait_for(Phase::Asked) < Phase::Aborting {
            true => drop(contain("a shutdown hook", hook)),
            false => drop_contained("the destructor of a shutdown hook", hook),
        }
    }
    control.hooks_done();
}
