//! `explain`

use std::sync::Arc;

use bson::{Document, RawDocumentBuf, rawdoc};

use super::settings::{Fields, Settings, awaitable, option};
use crate::client_core::{Attempt, Purpose, Slot};
use crate::client_shared::ClientShared;
use crate::collection_shared::CommandKind;
use crate::connection::Answer;
use crate::decode::decode;
use crate::error::{Error, Result};
use crate::running::{OnCore, Operation};

/// How much a server tells of how it executes a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verbosity {
    /// The plan that it would take. Nothing is executed.
    #[default]
    QueryPlanner,
    /// The same, and what its execution has cost. Writes change nothing.
    ExecutionStats,
    /// The same, and what other plans have cost that were tried.
    AllPlansExecution,
}

impl Verbosity {
    /// The word of the server.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QueryPlanner => "queryPlanner",
            Self::ExecutionStats => "executionStats",
            Self::AllPlansExecution => "allPlansExecution",
        }
    }
}

/// The question how a server executes a command, made by the methods `explain` of [`Find`](crate::Find),
/// [`Aggregate`](crate::Aggregate), [`Update`](crate::Update) and [`Delete`](crate::Delete). Awaiting it returns the answer
/// as the server gives it.
///
/// The time of the server, the comment and so on of this question are not those of the explained command.
///
/// ```no_run
/// use bson::doc;
/// use ringway_mongo::{Collection, Result, Verbosity};
///
/// # async fn slow(books: Collection<bson::Document>) -> Result {
/// let plan = books.find(doc! { "year": 1815 }).explain(Verbosity::ExecutionStats).await?;
/// println!("{plan}");
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Explain {
    /// Its own options.
    settings: Settings,
    explained: Result<RawDocumentBuf>,
    purpose: Purpose,
    verbosity: Verbosity,
}

impl Explain {
    /// Explains a command with what is its `own` and the options of an action. Concerns are no part of a plan, and are left
    /// out.
    pub(super) fn new(
        mut settings: Settings,
        kind: CommandKind,
        own: Fields,
        verbosity: Verbosity,
    ) -> Self {
        let options = std::mem::take(&mut settings.fields);
        let explained = explained(kind.name(), &settings.shared.name, [own, options]);
        let purpose = if kind.is_write() { Purpose::ReadOnce } else { Purpose::Read };
        Self { settings, explained, purpose, verbosity }
    }

    /// The same for a pipeline that writes, of which the server that takes writes knows the plan.
    pub(super) fn of_write(mut self) -> Self {
        self.purpose = Purpose::ReadOnce;
        self
    }

    option!(settings.max_time);
    option!(settings.comment);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);
}

fn explained(name: &str, collection: &str, parts: [Fields; 2]) -> Result<RawDocumentBuf> {
    let mut command = Fields::default();
    command.set(name, collection);
    for part in parts {
        for field in &part.into_document()? {
            let (key, value) = field.map_err(Error::encoding)?;
            if key.as_str() != "writeConcern" {
                command.set(key.as_str(), value);
            }
        }
    }
    command.into_document()
}

impl Operation for Explain {
    type Output = Document;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Document> {
        self.settings.fields.check()?;
        let mut command =
            rawdoc! { "explain": self.explained?, "verbosity": self.verbosity.name() };
        for (key, value) in self.settings.fields.to_document().iter().flatten() {
            command.append(key, value);
        }
        let mut session = self.settings.used_session(&core)?;
        let (time, database) = (self.settings.time(&core), &self.settings.shared.database);
        let reads = self.settings.concerns_now().reads.as_deref();
        let reads = reads.filter(|_| self.purpose == Purpose::Read);
        let attempt = Attempt { reads, ..Attempt::new(&mut session, time, self.purpose) };
        let write = |slot: Slot<'_>| slot.write_any(&command, database);
        core.run_in(attempt, write, |answer: Answer<'_>| decode(answer.body())).await
    }
}

awaitable!(Explain);
