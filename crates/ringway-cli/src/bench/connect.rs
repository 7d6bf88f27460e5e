//! Opens the connections of a client core before the clock starts.

use std::io;
use std::net::ToSocketAddrs;
use std::rc::Rc;

use ringway_runtime::io::{Stream, StreamLimits};
use ringway_runtime::sync::Semaphore;
use ringway_runtime::{spawn, timeout};
use socket2::SockAddr;

use crate::args::{Scheme, Uri};
use crate::limits;
use crate::report::Errors;

/// Converts an address to the kernel's form.
///
/// # Errors
/// The name does not resolve, or the socket path is too long.
pub(super) fn resolve(uri: &Uri) -> io::Result<SockAddr> {
    let (_, rest) = uri.as_str().split_once("://").expect("checked when it was parsed");
    if matches!(uri.scheme(), Scheme::Unix | Scheme::GrpcUnix | Scheme::JsonUnix) {
        return match rest.strip_prefix('@') {
            // A leading zero byte marks a name without a file.
            Some(name) => SockAddr::unix(format!("\0{name}")),
            None => SockAddr::unix(rest),
        };
    }
    let mut found = rest.to_socket_addrs()?;
    let address = found.next().ok_or_else(|| io::Error::other("the name has no address"))?;
    Ok(address.into())
}

/// Returns the bounds of a connection with one message of `size` bytes in flight. The queue holds it whole, so
/// sending it never blocks reading its reply.
pub(super) fn bounds_of_one(size: usize) -> StreamLimits {
    StreamLimits {
        send_high_water: 2 * size + 1,
        send_low_water: size,
        send_queue_max: 4 * size,
        ..StreamLimits::default()
    }
}

/// Opens connections with the numbers `numbers`, and counts those that fail in `errors`.
pub(super) async fn connect_all(
    address: &SockAddr,
    numbers: std::ops::Range<u32>,
    bounds: &Rc<StreamLimits>,
    errors: &mut Errors,
) -> Vec<(u32, Stream)> {
    let at_once = Semaphore::new(limits::CONNECTS_AT_ONCE);
    let attempts: Vec<_> = numbers
        .map(|number| {
            let (at_once, address) = (at_once.clone(), address.clone());
            (number, spawn(async move { connect(&at_once, &address).await }))
        })
        .collect();
    let mut connected = Vec::with_capacity(attempts.len());
    for (number, attempt) in attempts {
        let outcome = attempt.await.unwrap_or_else(|lost| Err(io::Error::other(lost)));
        match outcome {
            Ok(stream) => {
                stream.set_limits(Rc::clone(bounds));
                connected.push((number, stream));
            }
            Err(error) => count(errors, &error),
        }
    }
    connected
}

async fn connect(at_once: &Semaphore, address: &SockAddr) -> io::Result<Stream> {
    let _permit = at_once.acquire(1).await.map_err(io::Error::other)?;
    let stream = timeout(limits::CONNECT_MAX, Stream::connect(address))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if address.as_socket().is_some() {
        stream.with_socket(|socket| socket.set_tcp_nodelay(true))?;
    }
    Ok(stream)
}

/// Counts a connection that was not made or has failed, by its kind.
pub(super) fn count(errors: &mut Errors, error: &io::Error) {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => errors.refused += 1,
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => errors.reset += 1,
        ErrorKind::TimedOut => errors.timed_out += 1,
        _ => errors.other += 1,
    }
}
