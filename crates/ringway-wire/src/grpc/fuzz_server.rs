//! A fuzz function that feeds arbitrary bytes to a server: the result must not depend on where they
//! are cut, the output must consist of whole frames, and no memory may be held for calls that are
//! over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{GrpcServer, GuestEvent, RequestNames, ServerCompression, ServerConfig};
use crate::http2::fuzz_machines::check_frames;
use crate::http2::{ErrorCode, Http2Config, Line, StreamHandle, Vocabulary};
use crate::native::{Body, Outgoing, Reply, ServerEvent, StreamId};

/// Feeds a server. Bits of the first byte say that the input contains preface and SETTINGS, that
/// the server has low limits, that compression is off, and that requests are reported that are no
/// calls; the second byte says how the input is cut.
pub fn fuzz(data: &[u8]) {
    let [form, cut, input @ ..] = data else { return };
    let mut wire = if form & 1 == 0 { GREETING.to_vec() } else { Vec::new() };
    wire.extend_from_slice(input);
    let whole = Session::run(*form, &wire, usize::MAX);
    for step in [1, usize::from(*cut) + 1] {
        let pieces = Session::run(*form, &wire, step);
        let has_reset = whole.has_reset || pieces.has_reset;
        if has_reset && (whole.error.is_some() || pieces.error.is_some()) {
            // Where the input is cut decides whether a stream had ended or was reset when its
            // end arrived, and only then are late frames an error.
            let len = whole.told.len().min(pieces.told.len());
            assert_eq!(pieces.told[..len], whole.told[..len], "in pieces of {step}");
            continue;
        }
        assert_eq!(pieces.told, whole.told, "in pieces of {step}");
        assert_eq!(pieces.error, whole.error, "in pieces of {step}");
    }
}

/// The preface of HTTP/2, and empty SETTINGS.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Numbers of the server's methods, by how they read their messages.
const WHOLE: u32 = 1;
const IGNORED: u32 = 3;

/// A server, with the calls that it received and how it ended.
struct Session {
    server: GrpcServer,
    /// Calls that are not answered: their methods, and their messages so far.
    calls: BTreeMap<StreamId, (u32, Vec<Vec<u8>>)>,
    /// The other requests that are not answered: their fields, and their content so far.
    guests: BTreeMap<StreamHandle, (String, Vec<u8>)>,
    /// Calls, and other requests, that completed.
    told: Vec<String>,
    error: Option<String>,
    /// Whether the server has reset a stream.
    has_reset: bool,
}

impl Session {
    fn run(form: u8, wire: &[u8], step: usize) -> Self {
        let names = [("/a.B/C0", WHOLE), ("/a.B/C1", 2), ("/a.B/C2", IGNORED)];
        let vocabulary = Arc::new(Vocabulary::new(RequestNames::new(names)));
        let tight = Http2Config { max_streams: 2, max_header_list: 300, ..Http2Config::default() };
        let http2 = if form & 2 == 0 { Http2Config::default() } else { tight };
        let config = ServerConfig { http2: http2.into(), max_message: 5_000 };
        let mut session = Self {
            server: GrpcServer::new(config, vocabulary, Duration::ZERO),
            calls: BTreeMap::new(),
            guests: BTreeMap::new(),
            told: Vec::new(),
            error: None,
            has_reset: false,
        };
        if form & 8 != 0 {
            session.server.host_guests(1_024);
        }
        if form & 4 == 0 {
            let all = ServerCompression::new(None, 10);
            session.server.set_compression(Arc::new(all));
        }
        session.feed(wire, step);
        session.finish();
        session
    }

    fn feed(&mut self, wire: &[u8], step: usize) {
        for mut piece in wire.chunks(step) {
            loop {
                match self.server.receive(&mut piece, Duration::ZERO) {
                    Ok(Some(event)) => {
                        self.on_event(event);
                        while let Some((stream, message)) = self.server.receive_message(&mut piece)
                        {
                            self.on_message(stream, Some(message), false);
                        }
                    }
                    Ok(None) => break,
                    Err(violation) => {
                        let again = self.server.receive(&mut piece, Duration::ZERO).map(|_| ());
                        assert_eq!(again, Err(violation), "an error stays");
                        self.error = Some(violation.to_string());
                        return;
                    }
                }
            }
            assert!(piece.is_empty(), "no event, and bytes are left");
        }
    }

    fn on_event(&mut self, event: ServerEvent<'_>) {
        match event {
            ServerEvent::Request { stream, head, meta, message, end } => {
                if head.method == WHOLE && !end {
                    return self.server.await_rest(stream, head, &meta, message.as_deref());
                }
                if head.method == IGNORED {
                    self.server.ignore(stream);
                }
                self.calls.insert(stream, (head.method, vec![meta.to_vec()]));
                self.on_message(stream, message.as_deref(), end);
            }
            ServerEvent::Message { stream, message, end } => {
                self.on_message(stream, Some(&message), end);
            }
            ServerEvent::End { stream } => self.on_message(stream, None, true),
            ServerEvent::Cancelled { stream, .. } | ServerEvent::Failed { stream, .. } => {
                self.calls.remove(&stream).expect("a call that is known");
            }
            ServerEvent::Guest { stream, event } => self.on_guest(stream, event),
            _ => {}
        }
    }

    /// Acts as a handler of other requests, which takes what comes and sends it back.
    fn on_guest(&mut self, stream: StreamHandle, event: GuestEvent<'_>) {
        let (data, end) = match event {
            GuestEvent::Head { texts, is_cut, data, end } => {
                let texts = if is_cut { "cut".into() } else { format!("{texts:?}") };
                let former = self.guests.insert(stream, (texts, Vec::new()));
                assert!(former.is_none(), "a stream is one request");
                let line = Line::Once { name: b":status", value: b"200" };
                self.server.guest_head(stream, &[line], false).expect("it has just come");
                (data, end)
            }
            GuestEvent::Data { data, end } => (data, end),
            GuestEvent::Writable => return assert!(self.guests.contains_key(&stream)),
            GuestEvent::Gone => {
                self.guests.remove(&stream).expect("a request that is known");
                return;
            }
        };
        self.server.guest_taken(stream, data.len());
        let content = &mut self.guests.get_mut(&stream).expect("a request that is known").1;
        content.extend_from_slice(&data);
        self.server.guest_send(stream, Body::Copy(&data), end).expect("it goes on");
        if end && let Some(whole) = self.guests.remove(&stream) {
            self.told.push(format!("{whole:?}"));
        }
    }

    /// Acts as a handler that echoes each message, and ends with success.
    fn on_message(&mut self, stream: StreamId, message: Option<&[u8]>, end: bool) {
        let (method, messages) = self.calls.get_mut(&stream).expect("a call that is known");
        if let Some(message) = message
            && *method != IGNORED
        {
            messages.push(message.to_vec());
            // The call ends if its client accepts no metadata.
            let _gone = self.server.send(stream, &[], Body::Copy(message));
            self.server.taken(stream, 1);
        }
        if end && let Some((method, messages)) = self.calls.remove(&stream) {
            self.told.push(format!("{method}: {messages:?}"));
            self.server.respond(stream, Reply { status: 0, meta: &[], message: None });
        }
    }

    fn finish(&mut self) {
        if self.error.is_none() {
            for (stream, _) in std::mem::take(&mut self.calls) {
                self.server.respond(stream, Reply { status: 14, meta: &[], message: None });
            }
            for (stream, _) in std::mem::take(&mut self.guests) {
                self.server.guest_reset(stream, ErrorCode::CANCEL);
            }
            let guests = self.server.guests.as_ref().map_or(0, |guests| guests.kept());
            assert_eq!(guests, 0, "kept of requests that are over");
        }
        let mut sent = Vec::new();
        self.server.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(bytes) => sent.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => sent.extend_from_slice(&bytes),
        });
        self.has_reset = check_frames(&sent).contains(&RST_STREAM);
        if self.server.calls.live().is_empty() {
            assert_eq!(self.server.calls.kept(), 0, "kept of calls that are over");
        }
    }
}

const RST_STREAM: u8 = 3;
