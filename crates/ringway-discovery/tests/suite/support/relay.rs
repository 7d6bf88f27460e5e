//! A way to a server that a test cuts and mends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on to a server. Threads of a relay end with their connections.
pub(crate) struct Relay {
    pub(crate) authority: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    connections: Vec<TcpStream>,
}

impl Relay {
    pub(crate) fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = listener.local_addr().expect("bound").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, server) = (Arc::clone(&state), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let mut state = shared.lock().expect("no panic");
                if state.is_cut {
                    continue;
                }
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let [from, to] = [from, to].map(|it| it.try_clone().expect("descriptors"));
                    thread::spawn(move || pass(from, to));
                }
                state.connections.extend([client, server]);
            }
        });
        Self { authority, state }
    }

    /// Closes all connections, and new ones as soon as they are made.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.is_cut = true;
        for connection in state.connections.drain(..) {
            // Its peer may have closed it.
            _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Passes new connections on.
    pub(crate) fn mend(&self) {
        self.state.lock().expect("no panic").is_cut = false;
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Its peer may have closed it.
    _ = to.shutdown(Shutdown::Both);
}
