//! A server that tells by itself how it is, as MongoDB does since 4.4.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use bson::oid::ObjectId;
use bson::{Document, doc};

use super::fake::{Answer, Command, Fake, hello, reply};

/// The server.
pub(crate) struct StreamingServer {
    pub(crate) fake: Fake,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    hello: Document,
    counter: i64,
    /// Each question how it is, with the number of its connection.
    asked: Vec<(usize, Document)>,
    listeners: Vec<Listener>,
    log: Vec<Document>,
}

/// A connection on which changes are told.
struct Listener {
    connection: usize,
    stream: TcpStream,
    /// What the next reply answers: the command, or the reply before.
    to: i32,
    replies: i32,
}

impl StreamingServer {
    /// Starts a server that is what `role` says. All but `hello` is answered by `answer`.
    pub(crate) fn start(
        role: Document,
        answer: impl Fn(&Command) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        state.lock().expect("no panic").become_(role);
        let shared = Arc::clone(&state);
        let fake = Fake::serve_all(move |command| {
            let mut state = shared.lock().expect("no panic");
            if command.name() == "hello" {
                return state.greet(command);
            }
            state.log.push(command.body.clone());
            drop(state);
            answer(command)
        });
        Self { fake, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Becomes something else, and tells all who listen.
    pub(crate) fn change(&self, role: Document) {
        let mut state = self.state();
        state.become_(role);
        let hello = state.hello.clone();
        state.listeners.iter_mut().for_each(|listener| listener.tell(&hello, true));
    }

    /// Tells all who listen, and that it will not go on.
    pub(crate) fn tell_last(&self) {
        let mut state = self.state();
        let hello = state.hello.clone();
        state.listeners.drain(..).for_each(|mut listener| listener.tell(&hello, false));
    }

    /// Tells those who listen the same again and again, until they are gone or read no more.
    pub(crate) fn flood(&self, times: usize) {
        let mut state = self.state();
        let (first, hello) = (state.counter, state.hello.clone());
        for mut listener in state.listeners.drain(..) {
            let mut hello = hello.clone();
            std::thread::spawn(move || {
                for counter in (first..).take(times) {
                    set_counter(&mut hello, counter);
                    listener.tell(&hello, true);
                }
            });
        }
    }

    /// The connections on which it was asked to tell of changes.
    pub(crate) fn listeners(&self) -> Vec<usize> {
        self.state().listeners.iter().map(|listener| listener.connection).collect()
    }

    /// Each question how it is, with the number of its connection.
    pub(crate) fn asked(&self) -> Vec<(usize, Document)> {
        self.state().asked.clone()
    }

    /// How many commands of this name it got.
    pub(crate) fn count(&self, name: &str) -> usize {
        let state = self.state();
        state.log.iter().filter(|body| body.keys().next().is_some_and(|it| it == name)).count()
    }
}

impl State {
    fn become_(&mut self, role: Document) {
        self.counter += 1;
        self.hello = hello();
        self.hello.extend(role);
        set_counter(&mut self.hello, self.counter);
    }

    fn greet(&mut self, command: &Command) -> Answer {
        self.asked.push((command.connection, command.body.clone()));
        let Ok(version) = command.body.get_document("topologyVersion") else {
            return Answer::Reply(self.hello.clone());
        };
        let known = version.get_i64("counter").expect("a number");
        let (stream, connection) = (command.stream(), command.connection);
        let mut listener = Listener { connection, stream, to: command.id, replies: 0 };
        if known < self.counter {
            listener.tell(&self.hello, true);
        }
        self.listeners.push(listener);
        Answer::Silence
    }
}

impl Listener {
    fn tell(&mut self, hello: &Document, goes_on: bool) {
        self.replies += 1;
        let id = 1_000_000 + self.replies;
        let mut bytes = reply(self.to, hello);
        bytes[4..8].copy_from_slice(&id.to_le_bytes());
        bytes[16] = if goes_on { MORE_TO_COME } else { 0 };
        self.to = id;
        let _client_may_be_gone = self.stream.write_all(&bytes);
    }
}

const MORE_TO_COME: u8 = 2;

fn set_counter(hello: &mut Document, counter: i64) {
    let process = ObjectId::from_bytes([9; 12]);
    hello.insert("topologyVersion", doc! { "processId": process, "counter": counter });
}
