//! What the operations on a collection share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bson::RawDocumentBuf;
use ringway_wire::mongo::CommandTemplate;

use crate::client_shared::ClientShared;
use crate::reads::Reads;
use crate::write_concerns::{has_time, is_unanswered, without_time};

/// What actions of one collection share.
pub(crate) struct CollectionShared {
    pub(crate) client: Arc<ClientShared>,
    pub(crate) database: Arc<str>,
    pub(crate) name: Arc<str>,
    concerns: Concerns,
    templates: [OnceLock<CommandTemplate>; 8],
}

/// Who answers reads, and what reads and writes wait for there; `None` for the default of the client, and of the server.
#[derive(Clone, Default)]
pub(crate) struct Concerns {
    pub(crate) reads: Option<Arc<Reads>>,
    pub(crate) read: Option<RawDocumentBuf>,
    pub(crate) write: Option<RawDocumentBuf>,
    /// The time of operations, if it is another one than the client's.
    pub(crate) time: Option<Duration>,
}

/// The commands that have a template.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Find,
    Insert,
    Update,
    Delete,
    Aggregate,
    Distinct,
    FindAndModify,
    Count,
}

impl CommandKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Aggregate => "aggregate",
            Self::Distinct => "distinct",
            Self::FindAndModify => "findAndModify",
            Self::Count => "count",
        }
    }

    /// Whether nobody waits for the answer to such a command.
    pub(crate) fn is_unanswered(self, concerns: &Concerns) -> bool {
        self.is_write() && concerns.write.as_deref().is_some_and(is_unanswered)
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Delete | Self::FindAndModify)
    }
}

impl Concerns {
    pub(crate) fn of(client: &Arc<ClientShared>) -> Self {
        let options = &client.options;
        let (read, write) = (options.read_concern.clone(), options.write_concern.clone());
        Self { reads: None, read, write, time: None }
    }

    /// The same without a time in the concern of writes, if it has one.
    pub(crate) fn timeless(&self) -> Option<Self> {
        let write = self.write.as_deref().filter(|write| has_time(write))?;
        Some(Self { write: without_time(write), ..self.clone() })
    }

    /// The same without the concern of reads, for commands that have another one.
    pub(crate) fn unread(&self) -> Self {
        Self { read: None, ..self.clone() }
    }
}

impl CollectionShared {
    pub(crate) fn new(
        client: Arc<ClientShared>,
        database: Arc<str>,
        name: Arc<str>,
        concerns: Concerns,
    ) -> Self {
        Self { client, database, name, concerns, templates: Default::default() }
    }

    pub(crate) fn concerns(&self) -> &Concerns {
        &self.concerns
    }

    /// The part of a command that is the same each time.
    pub(crate) fn template(&self, kind: CommandKind) -> &CommandTemplate {
        self.templates[kind as usize].get_or_init(|| self.build(kind, &self.concerns))
    }

    /// Builds that part of a command with concerns of its own.
    pub(crate) fn build(&self, kind: CommandKind, concerns: &Concerns) -> CommandTemplate {
        let template = CommandTemplate::new(kind.name(), &*self.name, &self.database);
        let (name, concern) = match kind.is_write() {
            true => ("writeConcern", &concerns.write),
            false => ("readConcern", &concerns.read),
        };
        match concern {
            Some(concern) => template.with(|command| command.document(name, concern)),
            None => template,
        }
    }
}
