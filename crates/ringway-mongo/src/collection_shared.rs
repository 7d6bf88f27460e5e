//! What the operations on a collection share.

use std::cell::OnceCell;
use std::rc::Rc;

use ringway_wire::mongo::CommandTemplate;

use crate::client_core::ClientCore;

/// What actions of one collection share.
pub(crate) struct CollectionShared {
    pub(crate) core: Rc<ClientCore>,
    pub(crate) database: Rc<str>,
    pub(crate) name: Rc<str>,
    templates: [OnceCell<CommandTemplate>; 6],
}

/// The commands that have a template.
#[derive(Clone, Copy)]
pub(crate) enum CommandKind {
    Find,
    Insert,
    Update,
    Delete,
    Aggregate,
    Distinct,
}

impl CommandKind {
    fn name(self) -> &'static str {
        match self {
            Self::Find => "find",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Aggregate => "aggregate",
            Self::Distinct => "distinct",
        }
    }
}

impl CommandKind {
    fn is_write(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Delete)
    }
}

impl CollectionShared {
    pub(crate) fn new(core: Rc<ClientCore>, database: Rc<str>, name: Rc<str>) -> Self {
        Self { core, database, name, templates: Default::default() }
    }

    /// The part of a command that is the same each time.
    pub(crate) fn template(&self, kind: CommandKind) -> &CommandTemplate {
        self.templates[kind as usize].get_or_init(|| {
            let template = CommandTemplate::new(kind.name(), &*self.name, &self.database);
            let concerns = self.core.concerns();
            let (name, concern) = match kind.is_write() {
                true => ("writeConcern", &concerns.write),
                false => ("readConcern", &concerns.read),
            };
            match concern {
                Some(concern) => template.with(|command| command.document(name, concern)),
                None => template,
            }
        })
    }
}
