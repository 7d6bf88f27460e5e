//! A replica set of servers that do as a test says.

use std::sync::{Arc, Mutex, MutexGuard};

use bson::oid::ObjectId;
use bson::{Document, doc};

use super::fake::{Answer, Command, Fake, hello};

/// What the members agree on.
#[derive(Default)]
pub(crate) struct SetState {
    pub(crate) hosts: Vec<String>,
    /// Where the members are, also those that have left.
    places: Vec<String>,
    pub(crate) primary: Option<usize>,
    elections: u8,
    /// What it is called: `rs` unless a test says so.
    pub(crate) name: &'static str,
    /// Members that end their connections when they are asked how they are.
    pub(crate) dead: Vec<usize>,
    /// The primary while it stops: it refuses to greet those that come, and then the other one is elected.
    pub(crate) stopping: Option<(usize, usize)>,
    /// The newest version of the protocol that the members speak, if it is another than that of [`hello`].
    pub(crate) wire_version: Option<i32>,
    /// All commands but `hello`, with the member that got them.
    pub(crate) log: Vec<(usize, Document)>,
}

pub(crate) struct ReplicaSet {
    pub(crate) members: Vec<Fake>,
    state: Arc<Mutex<SetState>>,
}

impl ReplicaSet {
    /// Starts members, of which the first is the primary. `answer` gets the state and the member's number.
    pub(crate) fn start(
        count: usize,
        answer: impl Fn(&mut SetState, usize, &Command) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let (state, answer) = (Arc::new(Mutex::new(SetState::default())), Arc::new(answer));
        let member = |number: usize| {
            let (state, answer) = (Arc::clone(&state), Arc::clone(&answer));
            Fake::serve_all(move |command| {
                let mut state = state.lock().expect("no test panics here");
                if command.name() == "hello" {
                    if let Some((stopping, next)) = state.stopping
                        && stopping == number
                        && command.connection > 0
                    {
                        state.elect(Some(next));
                        let why = "the server is in quiesce mode and will shut down";
                        return Answer::Reply(doc! { "ok": 0.0, "code": 91, "errmsg": why });
                    }
                    return match state.dead.contains(&number) {
                        true => Answer::End(Vec::new()),
                        false => Answer::Reply(state.hello(number)),
                    };
                }
                state.log.push((number, command.body.clone()));
                answer(&mut state, number, command)
            })
        };
        let members: Vec<_> = (0..count).map(member).collect();
        let set = Self { members, state };
        let places: Vec<_> = set.members.iter().map(|member| member.place.clone()).collect();
        set.state().hosts = places.clone();
        set.state().places = places;
        set.state().name = "rs";
        set.state().elect(Some(0));
        set
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SetState> {
        self.state.lock().expect("no test panics here")
    }

    /// A connection string that names these members.
    pub(crate) fn address(&self, members: &[usize]) -> String {
        let places: Vec<_> = members.iter().map(|number| &*self.members[*number].place).collect();
        format!("mongodb://{}/?replicaSet=rs", places.join(","))
    }

    /// The members that got a command of this name, and the commands.
    pub(crate) fn got(&self, name: &str) -> Vec<(usize, Document)> {
        let state = self.state();
        let is_it =
            |(_, body): &&(usize, Document)| body.keys().next().is_some_and(|it| it == name);
        state.log.iter().filter(is_it).cloned().collect()
    }
}

impl SetState {
    pub(crate) fn elect(&mut self, primary: Option<usize>) {
        self.primary = primary;
        self.elections += 1;
    }

    fn hello(&self, number: usize) -> Document {
        let is_primary = self.primary == Some(number);
        let mut hello = hello();
        if let Some(version) = self.wire_version {
            hello.insert("maxWireVersion", version);
        }
        hello.insert("setName", self.name);
        hello.insert("setVersion", 1);
        hello.insert("hosts", self.hosts.clone());
        hello.insert("me", self.places[number].clone());
        hello.insert("isWritablePrimary", is_primary);
        hello.insert("secondary", !is_primary);
        if is_primary {
            let mut election = [0; 12];
            election[11] = self.elections;
            hello.insert("electionId", ObjectId::from_bytes(election));
        }
        hello
    }
}

/// The answer of a member that takes no writes.
pub(crate) fn not_primary() -> Answer {
    Answer::Reply(doc! {
        "ok": 0.0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary",
        "errorLabels": ["RetryableWriteError"],
    })
}
