//! A gRPC server that answers as it likes, and whose words are changed on some connections.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringway_runtime::io::Stream;
use ringway_runtime::{now, sleep, timeout};
use ringway_wire::grpc::{GrpcServer, RequestNames, ServerConfig};
use ringway_wire::http2::{Http2Config, Vocabulary};
use ringway_wire::native::{Body, GoAwayCode, MetaWriter, Reply, ServerEvent, StreamId};

use super::{METHODS, MS, write};
use crate::server::simulated::mutation::random::Random;
use crate::server::simulated::mutation::sessions::{NOISE, append};
use crate::server::simulated::mutation::{GRPC_SESSIONS, mutate_grpc, split_grpc};

/// One connection of it.
pub(super) struct Talk {
    stream: Rc<Stream>,
    machine: GrpcServer,
    running: Vec<StreamId>,
    random: Random,
    /// One of so many outputs is changed.
    changes_every: usize,
}

const UNAVAILABLE: u8 = 14;

impl Talk {
    pub(super) fn new(stream: Rc<Stream>, mut random: Random) -> Self {
        let paths = METHODS.each_ref().map(|method| format!("/{}", method.name()));
        let names = RequestNames::new(paths.iter().map(|path| (path.as_str(), 1)));
        let max_streams = [1, 4, 64][random.below(3)];
        let http2 = Http2Config { max_streams, ..Http2Config::default() };
        let config = ServerConfig { http2: http2.into(), max_message: 4 << 20 };
        let vocabulary = Arc::new(Vocabulary::new(names));
        let machine = GrpcServer::new(config, vocabulary, Duration::ZERO);
        let changes_every = [1, 8, 32, 128][random.below(4)];
        Self { stream, machine, running: Vec::new(), random, changes_every }
    }

    pub(super) async fn run(mut self) {
        let begun = now();
        loop {
            self.say().await;
            match timeout(MS * 20, self.stream.recv()).await {
                Ok(Ok(Some(view))) => self.listen(&view, now() - begun),
                Err(_) => {
                    let _given_up = self.machine.handle_timeout(now() - begun);
                }
                Ok(Ok(None) | Err(_)) => return,
            }
            for _ in 0..[0, 0, 0, 3][self.random.below(4)] {
                self.say_a_part();
            }
            if self.random.below(4) > 0 {
                self.answer_all();
            }
            match self.random.below(400) {
                0 => self.stream.abort(),
                1 => self.stream.shutdown(),
                2 => self.machine.go_away(GoAwayCode::NoError, MS * 500, ""),
                3 => sleep(MS * self.random.below(4_000) as u32).await,
                _ => {}
            }
        }
    }

    fn say_a_part(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let stream = self.running[self.random.below(self.running.len())];
        if self.random.below(4) == 0 {
            let mut meta = Vec::new();
            MetaWriter::new(&mut meta).entry("key", b"value");
            let _may_have_ended = self.machine.send_initial(stream, &meta);
            return;
        }
        let body = Body::Shared(NOISE.slice(..self.random.below(30_000)));
        let _may_have_ended = self.machine.send(stream, &[], body);
    }

    fn answer_all(&mut self) {
        for stream in self.running.drain(..) {
            let mut meta = Vec::new();
            let kind = self.random.below(8);
            if kind == 0 {
                MetaWriter::new(&mut meta).refused();
            }
            let reply = match kind {
                0 | 1 => Reply { status: UNAVAILABLE, meta: &meta, message: None },
                _ => {
                    let message = Body::Shared(NOISE.slice(..self.random.below(3_000)));
                    Reply { status: 0, meta: &meta, message: Some(message) }
                }
            };
            self.machine.respond(stream, reply);
        }
    }

    fn listen(&mut self, mut input: &[u8], now: Duration) {
        while let Ok(Some(event)) = self.machine.receive(&mut input, now) {
            match event {
                ServerEvent::Request { stream, .. } => self.running.push(stream),
                ServerEvent::Message { stream, .. } => self.machine.taken(stream, 1),
                ServerEvent::Cancelled { stream, .. } => {
                    self.running.retain(|own| *own != stream);
                    self.machine.respond(stream, Reply { status: 1, meta: &[], message: None });
                }
                _ => {}
            }
        }
    }

    /// Sends what the machine says, or something like it.
    async fn say(&mut self) {
        let mut said = Vec::new();
        self.machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
        if said.is_empty() {
            return;
        }
        let mut parts = split_grpc(&said);
        if self.random.below(self.changes_every) == 0 {
            let others = &GRPC_SESSIONS[self.random.below(GRPC_SESSIONS.len())];
            mutate_grpc(&mut parts, others, &mut self.random);
        }
        write(&self.stream, &mut self.random, &parts.concat()).await;
    }
}
