//! Several commands under way on one connection.

use std::task::{Context, Poll};

use bson::{RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, MongoFault};

use super::{Answer, ServerConnection, check, secrets, unsendable};
use crate::client_core::has_field;
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{BUFFER_KEPT, COPIED_MAX, PIPELINE_BYTES_MAX, PIPELINE_REPLY_BYTES_MAX};
use crate::observer::{Observed, ObservedServer};
use crate::session::Session;

/// Where commands come from that are sent without waiting for each other, and where their answers go.
pub(crate) trait CommandSource {
    /// Writes the next command, if there is one that may be sent now.
    fn write_next(&mut self, place: NextCommand<'_>) -> Next;

    /// Takes the answer to a command that was sent under this number.
    fn answered(&mut self, id: i32, answer: Result<Answer<'_>>);

    /// Whether all commands are sent.
    fn is_empty(&self) -> bool;
}

/// The place of a command among those under way.
pub(crate) struct NextCommand<'a> {
    pub(crate) id: i32,
    /// How many others are under way.
    pub(crate) in_flight: usize,
    pub(crate) has_sessions: bool,
    /// What each command has in addition.
    pub(crate) api: Option<&'a RawDocumentBuf>,
    pub(crate) out: &'a mut Vec<u8>,
}

/// What has become of the next command.
pub(crate) enum Next {
    Written,
    /// It could not be written, and another may be.
    Refused,
    /// None may be sent now.
    None,
}

/// One command of several, and what has become of it. It outlives the future that runs it, which a deadline
/// drops.
pub(crate) struct PipelinedCommand {
    command: RawDocumentBuf,
    /// Its session while it is under way.
    session: Option<Session>,
    /// The number by which it was sent.
    id: Option<i32>,
    /// Who is told of it, while it is under way.
    observed: Option<Observed>,
    outcome: Option<Result<RawDocumentBuf>>,
}

impl PipelinedCommand {
    pub(crate) fn new(command: RawDocumentBuf) -> Self {
        Self { command, session: None, id: None, observed: None, outcome: None }
    }

    /// A command that will not be sent.
    pub(crate) fn refused(why: Error) -> Self {
        let mut refused = Self::new(RawDocumentBuf::new());
        refused.outcome = Some(Err(why));
        refused
    }

    /// Why it has failed, if it has.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.outcome.as_ref()?.as_ref().err()
    }

    /// What has become of it. `ended` is why all commands ended before their answers came.
    pub(crate) fn into_outcome(mut self, ended: Option<&Error>) -> Result<RawDocumentBuf> {
        let fate = if self.id.is_some() { Fate::Unknown } else { Fate::NotSent };
        let outcome = self.outcome.take();
        let outcome = outcome.unwrap_or_else(|| Err(unanswered("a pipeline", ended, fate)));
        if let (Some(observed), Err(error)) = (self.observed.take(), &outcome) {
            observed.failed(error);
        }
        outcome
    }
}

impl Drop for PipelinedCommand {
    /// Nobody uses the session again of a command that is still under way.
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.lose();
        }
    }
}

/// The error of a command without an answer.
pub(crate) fn unanswered(whole: &str, ended: Option<&Error>, fate: Fate) -> Error {
    let when = match fate {
        Fate::NotSent => "before this command was sent",
        _ => "before the answer to this command came",
    };
    match ended {
        Some(why) => {
            let kind = match why.kind() {
                Kind::Timeout => Kind::Timeout,
                // There was no connection at all.
                kind if why.is_unsent() => kind,
                _ => Kind::Network,
            };
            Error::new(kind, fate, format!("{whole} ended {when}: {why}"))
        }
        None => Error::new(Kind::Protocol, fate, format!("{whole} ended {when}")),
    }
}

/// Where a run of several commands stands.
struct Progress<'c> {
    database: &'c str,
    /// Of commands that have none of their own.
    read_preference: Option<&'c RawDocumentBuf>,
    session: &'c dyn Fn() -> Session,
    observed: Option<&'c ObservedServer>,
    commands: &'c mut [PipelinedCommand],
    /// The first command that is not sent.
    unsent: usize,
    /// The first command that may wait for its answer.
    waiting: usize,
    /// Bytes of the commands under way.
    bytes: usize,
    /// Bytes of the replies that are kept.
    kept: usize,
}

impl ServerConnection {
    /// Sends commands, at most `depth` of them waiting for their answers at a time, until all have their outcome.
    /// Each has a session while it is under way. An error is that of the connection; the commands keep what they have.
    pub(crate) async fn run_pipelined(
        &mut self,
        database: &str,
        read_preference: Option<&RawDocumentBuf>,
        depth: usize,
        session: &dyn Fn() -> Session,
        observed: Option<&ObservedServer>,
        commands: &mut [PipelinedCommand],
    ) -> Result {
        let mut progress = Progress {
            database,
            read_preference,
            session,
            observed,
            commands,
            unsent: 0,
            waiting: 0,
            bytes: 0,
            kept: 0,
        };
        self.begin_several(depth);
        std::future::poll_fn(|cx| self.poll_several(cx, &mut progress)).await?;
        self.end_several();
        Ok(())
    }

    /// Has up to `depth` commands under way from now on.
    pub(crate) fn begin_several(&mut self, depth: usize) {
        self.replies.set_in_flight_max(depth);
    }

    /// Has one command under way at a time again. None may be under way.
    pub(crate) fn end_several(&mut self) {
        self.replies.set_in_flight_max(1);
    }

    /// Sends and receives until all commands of a source have their answers. An error is that of the connection.
    pub(crate) fn poll_several(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl CommandSource,
    ) -> Poll<Result> {
        loop {
            self.send_next(source);
            if source.is_empty() && self.replies.in_flight() == 0 {
                return Poll::Ready(Ok(()));
            }
            let view = match self.connection.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(view))) => view,
                Poll::Ready(ended) => return Poll::Ready(Err(self.broke(ended.err()))),
            };
            let mut input = &view[..];
            while !input.is_empty() {
                match self.replies.next(&mut input) {
                    Ok(None) => {}
                    Ok(Some(reply)) => {
                        let (id, is_last) = (reply.request_id(), !reply.has_more_to_come());
                        let (message, body) = reply.into_parts();
                        source.answered(id, check(Answer { message, body }));
                        if !is_last {
                            return Poll::Ready(Err(self.faulty(MongoFault::MoreToCome)));
                        }
                    }
                    Err(fault) => return Poll::Ready(Err(self.faulty(fault))),
                }
            }
        }
    }

    /// Writes as many commands as may wait, and sends them together.
    fn send_next(&mut self, source: &mut impl CommandSource) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let (has_sessions, api) = (self.has_sessions(), self.api());
        while let Some(id) = self.replies.begin() {
            let start = buffer.len();
            let in_flight = self.replies.in_flight() - 1;
            let api = api.as_deref();
            let place = NextCommand { id, in_flight, has_sessions, api, out: &mut buffer };
            match source.write_next(place) {
                Next::Written => {}
                refused => {
                    self.replies.take_back(id);
                    buffer.truncate(start);
                    if matches!(refused, Next::None) {
                        break;
                    }
                    continue;
                }
            }
            if let Some(compressor) =
                self.facts.compressor.filter(|_| !secrets::is_secret(&buffer[start..]))
            {
                compressor.compress(start, &mut buffer);
            }
        }
        if !buffer.is_empty() {
            match buffer.len() <= COPIED_MAX {
                true => drop(self.connection.write(&buffer)),
                false => drop(self.connection.send(std::mem::take(&mut buffer))),
            }
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_KEPT);
        self.buffer = buffer;
    }
}

impl CommandSource for Progress<'_> {
    fn write_next(&mut self, place: NextCommand<'_>) -> Next {
        let Some(next) = self.commands.get_mut(self.unsent) else { return Next::None };
        let len = next.command.as_bytes().len();
        if self.bytes > 0 && self.bytes + len > PIPELINE_BYTES_MAX {
            return Next::None;
        }
        self.unsent += 1;
        if next.outcome.is_some() {
            return Next::Refused;
        }
        let session = place.has_sessions.then(|| (self.session)());
        let (id, out) = (place.id, place.out);
        let start = out.len();
        let slot = (id, session.as_ref(), self.read_preference, place.api, &mut *out);
        if let Err(error) = write(slot, &next.command, self.database) {
            next.outcome = Some(Err(error));
            return Next::Refused;
        }
        (next.id, next.session) = (Some(id), session);
        next.observed = self.observed.map(|observed| observed.started(id, &out[start..]));
        self.bytes += len;
        Next::Written
    }

    fn is_empty(&self) -> bool {
        self.unsent == self.commands.len()
    }

    fn answered(&mut self, id: i32, answer: Result<Answer<'_>>) {
        let sent = &mut self.commands[self.waiting..self.unsent];
        // Servers answer in order, so it is nearly always the first.
        let Some(answered) = sent.iter_mut().find(|command| command.id == Some(id)) else { return };
        if let Some(observed) = answered.observed.take() {
            observed.answered(&answer);
        }
        let kept = &mut self.kept;
        answered.outcome = Some(answer.and_then(|answer| keep(answer, kept)));
        answered.session = None;
        self.bytes -= answered.command.as_bytes().len();
        self.waiting += sent.iter().take_while(|command| command.outcome.is_some()).count();
    }
}

fn keep(answer: Answer<'_>, kept: &mut usize) -> Result<RawDocumentBuf> {
    let body = answer.body();
    let len = body.as_bytes().len();
    if *kept + len > PIPELINE_REPLY_BYTES_MAX {
        let what = format!(
            "the command was executed, but the replies of its pipeline have more than {PIPELINE_REPLY_BYTES_MAX} bytes"
        );
        return Err(Error::new(Kind::Limit, Fate::Unknown, what));
    }
    *kept += len;
    Ok(body.to_owned())
}

pub(crate) type PipelineSlot<'a> = (
    i32,
    Option<&'a Session>,
    Option<&'a RawDocumentBuf>,
    Option<&'a RawDocumentBuf>,
    &'a mut Vec<u8>,
);

/// Writes a command with its session and what the server has to know.
pub(crate) fn write(slot: PipelineSlot<'_>, command: &RawDocument, database: &str) -> Result {
    let (id, session, read_preference, api, out) = slot;
    let mut writer = CommandWriter::new(out, id);
    writer.fields(command);
    if !has_field(command, "$db") {
        writer.str("$db", database);
    }
    api.iter().for_each(|api| writer.fields(api));
    if let Some(preference) = read_preference.filter(|_| !has_field(command, "$readPreference")) {
        writer.document("$readPreference", preference);
    }
    if let Some(session) = session {
        writer.nested("lsid", |lsid| lsid.uuid("id", session.id()));
    }
    writer.finish().map(drop).map_err(unsendable)
}
