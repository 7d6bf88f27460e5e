//! SCRAM over a connection.

use std::cell::Cell;

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument, Uuid};
use ringway_wire::mongo::{
    CommandWriter, HelloReply, MongoFault, ScramClient, ScramFault, ScramMechanism,
};

use super::keys::KeyCache;
use super::{ServerConnection, unsendable};
use crate::error::{Error, Kind, Result};
use crate::options::Login;

/// A nonce: 244 random bits in characters that SCRAM allows.
pub(super) fn nonce() -> String {
    [Uuid::new(), Uuid::new()]
        .iter()
        .flat_map(|uuid| uuid.to_string().into_bytes())
        .map(char::from)
        .collect()
}

/// How far an exchange has come by `hello`.
pub(super) struct Begun {
    client: ScramClient,
    first: Option<ServerStep>,
}

/// An answer of the server within an exchange.
pub(super) struct ServerStep {
    conversation: i32,
    payload: Vec<u8>,
    pub(super) is_done: bool,
}

impl Begun {
    /// Takes up the exchange that `hello` has begun, if the server went along; otherwise another one is to
    /// begin, by the best mechanism that the server has.
    pub(super) fn of(reply: &HelloReply<'_>, login: &Login, client: ScramClient) -> Self {
        let step =
            reply.speculative_authenticate.and_then(|document| ServerStep::of(document).ok());
        if step.is_some() {
            return Self { client, first: step };
        }
        let known = login.mechanism.or_else(|| reply.mechanism());
        // Servers that do not tell are older than SCRAM-SHA-256.
        let mechanism = known.unwrap_or(ScramMechanism::Sha1);
        Self { client: ScramClient::new(mechanism, &login.user, &nonce()), first: None }
    }
}

/// Goes through the exchange to its end. The server has shown that it knows the password, or this fails.
pub(super) async fn run(
    connection: &mut ServerConnection,
    login: &Login,
    keys: &KeyCache,
    begun: Begun,
) -> Result {
    let (client, mechanism) = (begun.client.clone(), begun.client.mechanism());
    let source = &login.source;
    let first = match begun.first {
        Some(first) => first,
        None => step(connection, source, |writer| client.start(writer)).await?,
    };
    let challenge = begun.client.challenge(&first.payload).map_err(Error::authentication)?;
    let keys = keys.keys(login, mechanism, &challenge).await?;
    let (answer, verifier) = challenge.answer(&keys);
    let last = next(connection, source, &first, answer.as_bytes()).await?;
    verifier.verify(&last.payload).map_err(Error::authentication)?;
    let end = match last.is_done {
        true => return Ok(()),
        false => next(connection, source, &first, b"").await?,
    };
    match end.is_done {
        true => Ok(()),
        false => Err(Error::authentication(ScramFault::Unfinished)),
    }
}

async fn next(
    connection: &mut ServerConnection,
    source: &str,
    first: &ServerStep,
    payload: &[u8],
) -> Result<ServerStep> {
    step(connection, source, |writer| {
        writer.i32("saslContinue", 1);
        writer.i32("conversationId", first.conversation);
        writer.binary("payload", payload);
    })
    .await
}

async fn step(
    connection: &mut ServerConnection,
    source: &str,
    write: impl FnOnce(&mut CommandWriter<'_>),
) -> Result<ServerStep> {
    let api = connection.api();
    let write = |id, out: &mut Vec<u8>| {
        let mut writer = CommandWriter::new(out, id);
        write(&mut writer);
        writer.str("$db", source);
        api.iter().for_each(|api| writer.fields(api));
        writer.finish().map(drop).map_err(unsendable)
    };
    let read = |answer: super::Answer<'_>| ServerStep::of(answer.body()).map_err(Error::reply);
    let result = connection.run(&Cell::new(false), write, read).await;
    result.map_err(|error| match error.server() {
        Some(_) => error.into_kind(Kind::Authentication),
        None => error,
    })
}

impl ServerStep {
    pub(super) fn of(document: &RawDocument) -> Result<Self, MongoFault> {
        let field = |name| document.get(name).map_err(|_| MongoFault::Document("a step of SCRAM"));
        let conversation = field("conversationId")?.and_then(RawBsonRef::as_i32);
        let payload = field("payload")?.and_then(RawBsonRef::as_binary);
        let payload = payload.filter(|payload| payload.subtype == BinarySubtype::Generic);
        let is_done = field("done")?.and_then(RawBsonRef::as_bool);
        Ok(Self {
            conversation: conversation.ok_or(MongoFault::Field("conversationId"))?,
            payload: payload.ok_or(MongoFault::Field("payload"))?.bytes.to_vec(),
            is_done: is_done.ok_or(MongoFault::Field("done"))?,
        })
    }
}
