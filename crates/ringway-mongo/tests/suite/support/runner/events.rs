//! What clients tell in a test, and how it is compared.

use bson::{Bson, Document, doc};
use ringway_mongo::{
    CommandEvent, CommandPhase, PoolChange, PoolEvent, ServerType, TopologyChange, TopologyEvent,
};

use super::super::unified::{Entities, documents, matches};
use super::{Why, failed};

/// What a client has told, by the names of the format.
#[derive(Debug)]
pub(crate) struct Told {
    kind: &'static str,
    family: &'static str,
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
        Self { kind, family: "command", fields }
    }

    pub(crate) fn pool(event: &PoolEvent<'_>) -> Self {
        let kind = match event.change {
            PoolChange::Created { .. } => "poolCreatedEvent",
            PoolChange::Ready => "poolReadyEvent",
            PoolChange::Cleared { .. } => "poolClearedEvent",
            PoolChange::Closed => "poolClosedEvent",
            PoolChange::ConnectionCreated { .. } => "connectionCreatedEvent",
            PoolChange::ConnectionReady { .. } => "connectionReadyEvent",
            PoolChange::ConnectionClosed { .. } => "connectionClosedEvent",
            PoolChange::CheckOutStarted => "connectionCheckOutStartedEvent",
            PoolChange::CheckOutFailed { .. } => "connectionCheckOutFailedEvent",
            PoolChange::CheckedOut { .. } => "connectionCheckedOutEvent",
            _ => "connectionCheckedInEvent",
        };
        Self { kind, family: "cmap", fields: Document::new() }
    }

    pub(crate) fn topology(event: &TopologyEvent<'_>) -> Self {
        let (kind, fields) = match &event.change {
            TopologyChange::Opening => ("topologyOpeningEvent", doc! {}),
            TopologyChange::Closed => ("topologyClosedEvent", doc! {}),
            TopologyChange::Changed { previous, current } => {
                let kinds = [previous, current].map(|it| format!("{:?}", it.kind()));
                ("topologyDescriptionChangedEvent", pair(kinds))
            }
            TopologyChange::ServerOpening { .. } => ("serverOpeningEvent", doc! {}),
            TopologyChange::ServerClosed { .. } => ("serverClosedEvent", doc! {}),
            TopologyChange::ServerChanged { previous, current } => {
                let kinds = [previous, current].map(|it| server_type(it.kind));
                ("serverDescriptionChangedEvent", pair(kinds))
            }
            TopologyChange::HeartbeatStarted { is_awaited, .. } => {
                ("serverHeartbeatStartedEvent", doc! { "awaited": *is_awaited })
            }
            TopologyChange::HeartbeatSucceeded { is_awaited, .. } => {
                ("serverHeartbeatSucceededEvent", doc! { "awaited": *is_awaited })
            }
            TopologyChange::HeartbeatFailed { is_awaited, .. } => {
                ("serverHeartbeatFailedEvent", doc! { "awaited": *is_awaited })
            }
            other => panic!("unknown: {other:?}"),
        };
        Self { kind, family: "sdam", fields }
    }

    /// Whether it is of a command whose content is not told.
    pub(crate) fn is_secret(&self) -> bool {
        let is_empty = |name| self.fields.get_document(name).is_ok_and(|it| it.is_empty());
        is_empty("command") || is_empty("reply")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Bson> {
        self.fields.get(name)
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

fn pair([previous, current]: [String; 2]) -> Document {
    doc! { "previousDescription": { "type": previous }, "newDescription": { "type": current } }
}

fn server_type(kind: ServerType) -> String {
    match kind {
        ServerType::Primary => "RSPrimary".to_owned(),
        ServerType::Secondary => "RSSecondary".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Compares what a client was to tell with what it has told.
pub(crate) fn compare(entities: &Entities, expected: &Document, told: &[Told]) -> Result<(), Why> {
    let family = expected.get_str("eventType").unwrap_or("command");
    let told: Vec<_> = told.iter().filter(|it| it.family == family).collect();
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
