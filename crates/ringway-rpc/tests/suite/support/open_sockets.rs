//! Sockets of the callers of a test, which hang up before their server ends.

use std::cell::RefCell;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Weak};

thread_local! {
    static OPEN: RefCell<Vec<Weak<TcpStream>>> = const { RefCell::new(Vec::new()) };
}

/// Connects; [`hang_up`] of the same thread ends the connection if it is still open then.
pub(crate) fn connect(address: SocketAddr) -> Arc<TcpStream> {
    let socket = TcpStream::connect(address).expect("the server listens");
    socket.set_nodelay(true).expect("an option of TCP");
    let socket = Arc::new(socket);
    OPEN.with_borrow_mut(|open| open.push(Arc::downgrade(&socket)));
    socket
}

/// Ends the connections of this thread's callers. A caller reads only when it expects something, so it
/// would not acknowledge a drain, and the server would wait for it for seconds.
pub(crate) fn hang_up() {
    let open = OPEN.take();
    for socket in open.iter().filter_map(Weak::upgrade) {
        let _may_be_closed = socket.shutdown(Shutdown::Both);
    }
}
