//! What clients tell in a test, and how it is compared.

use bson::{Bson, Document};
use ringway_mongo::{CommandEvent, CommandPhase, PoolChange, PoolEvent};

use super::super::unified::{Entities, documents, matches};
use super::{Why, failed};

/// What a client has told, by the names of the format.
#[derive(Debug)]
pub(crate) struct Told {
    kind: &'static str,
    is_of_pool: bool,
    /// What is compared: `commandName`, `databaseName`, `command`, `reply`.
    fields: Document,
}

impl Told {
    pub(crate) fn command(event: &CommandEvent<'_>) -> Self {
        let mut fields = Document::new();
        fields.insert("commandName", event.name);
        fields.insert("databaseName", event.database);
        let kind = match event.phase {
            CommandPhase::Started { command } => {
                let command = Document::try_from(command).expect("BSON");
                fields.insert("command", command);
                "commandStartedEvent"
            }
            CommandPhase::Succeeded { reply, .. } => {
                fields.insert("reply", Document::try_from(reply).expect("BSON"));
                "commandSucceededEvent"
            }
            _ => "commandFailedEvent",
        };
        Self { kind, is_of_pool: false, fields }
    }

    pub(crate) fn pool(event: &PoolEvent<'_>) -> Self {
        let kind = match event.change {
            PoolChange::Created { .. } => "poolCreatedEvent",
            PoolChange::Ready => "poolReadyEvent",
            PoolChange::Cleared => "poolClearedEvent",
            PoolChange::Closed => "poolClosedEvent",
            PoolChange::ConnectionCreated { .. } => "connectionCreatedEvent",
            PoolChange::ConnectionReady { .. } => "connectionReadyEvent",
            PoolChange::ConnectionClosed { .. } => "connectionClosedEvent",
            PoolChange::CheckOutStarted => "connectionCheckOutStartedEvent",
            PoolChange::CheckOutFailed { .. } => "connectionCheckOutFailedEvent",
            PoolChange::CheckedOut { .. } => "connectionCheckedOutEvent",
            _ => "connectionCheckedInEvent",
        };
        Self { kind, is_of_pool: true, fields: Document::new() }
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    pub(crate) fn name(&self) -> &str {
        self.fields.get_str("commandName").unwrap_or_default()
    }

    /// The session of a command that was started.
    pub(crate) fn session(&self) -> Option<&Bson> {
        self.fields.get_document("command").ok()?.get("lsid")
    }
}

/// Compares what a client was to tell with what it has told.
pub(crate) fn compare(entities: &Entities, expected: &Document, told: &[Told]) -> Result<(), Why> {
    let is_of_pool = expected.get_str("eventType").is_ok_and(|kind| kind == "cmap");
    let told: Vec<_> = told.iter().filter(|it| it.is_of_pool == is_of_pool).collect();
    let events: Vec<_> = documents(expected, "events").collect();
    let may_be_more = expected.get_bool("ignoreExtraEvents").unwrap_or_default();
    if told.len() < events.len() || told.len() > events.len() && !may_be_more {
        let told: Vec<_> = told.iter().map(|it| (it.kind, it.name())).collect();
        return Err(failed(format!("{} events are expected, not {told:?}", events.len())));
    }
    for (event, told) in events.into_iter().zip(told) {
        let (kind, fields) = event.iter().next().expect("a kind");
        if kind != told.kind {
            return Err(failed(format!("{event} is expected, not {told:?}")));
        }
        for (name, value) in fields.as_document().into_iter().flatten() {
            let Some(actual) = told.fields.get(name) else { continue };
            matches(entities, value, actual)
                .map_err(|why| failed(format!("{kind} {}: {name}: {why}", told.name())))?;
        }
    }
    Ok(())
}
