//! Options of actions.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::{BindRawBsonRef, CStr, RawBson};
use bson::{Bson, RawDocumentBuf};
use ringway_runtime::now_exact;
use ringway_wire::mongo::{CommandTemplate, CommandWriter, MongoFault};

use crate::client_core::{
    Attempt, ClientCore, MAX_TIME, OperationTime, Purpose, ReadConcernOf, Slot,
};
use crate::collection_shared::{CollectionShared, CommandKind, Concerns};
use crate::connection::{Answer, unsendable};
use crate::cursor::BatchTime;
use crate::error::{Error, Fate, Kind, Result};
use crate::reads::Reads;
use crate::session::{KeptSession, Session, UsedSession};
use crate::transaction::ClientSession;
use crate::uri::{ReadConcern, ReadPreference, WriteConcern};

/// Fields of a command, or of one write in it. What cannot be encoded is an error when it is sent.
#[derive(Default)]
pub(crate) struct Fields {
    document: Option<RawDocumentBuf>,
    fault: Option<Error>,
}

impl Fields {
    /// Sets a field; a later value replaces an earlier one.
    pub(crate) fn set(&mut self, name: &str, value: impl BindRawBsonRef) {
        let key = match <&CStr>::try_from(name) {
            Ok(key) => key,
            Err(fault) => return self.fail(Error::encoding(fault)),
        };
        let document = self.document.get_or_insert_with(RawDocumentBuf::new);
        if let Ok(Some(_)) = document.get(name) {
            *document = without(name, document);
        }
        document.append(key, value);
    }

    /// Sets the concern of a write that has none of its own.
    pub(crate) fn set_default_concern(&mut self, concern: Option<&RawDocumentBuf>) {
        const NAME: &str = "writeConcern";
        let own = self.document.as_ref().and_then(|document| document.get(NAME).ok().flatten());
        if let Some(concern) = concern.filter(|_| own.is_none()) {
            self.set(NAME, concern);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(document) = &mut self.document
            && let Ok(Some(_)) = document.get(name)
        {
            *document = without(name, document);
        }
    }

    pub(crate) fn set_document(&mut self, name: &str, document: Result<RawDocumentBuf>) {
        match document {
            Ok(document) => self.set(name, document),
            Err(fault) => self.fail(fault),
        }
    }

    pub(crate) fn set_value(&mut self, name: &str, value: Bson) {
        match RawBson::try_from(value) {
            Ok(value) => self.set(name, value),
            Err(fault) => self.fail(Error::encoding(fault)),
        }
    }

    pub(crate) fn set_raw(&mut self, name: &str, value: Result<RawBson>) {
        match value {
            Ok(value) => self.set(name, value),
            Err(fault) => self.fail(fault),
        }
    }

    /// The error of the first value that could not be encoded.
    pub(crate) fn check(&mut self) -> Result {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// The fields so far, as far as they could be encoded.
    pub(crate) fn to_document(&self) -> RawDocumentBuf {
        self.document.clone().unwrap_or_default()
    }

    /// The document with these fields.
    pub(crate) fn into_document(mut self) -> Result<RawDocumentBuf> {
        self.check()?;
        Ok(self.document.unwrap_or_default())
    }

    pub(crate) fn write(&self, command: &mut CommandWriter<'_>) {
        if let Some(document) = &self.document {
            command.fields(document);
        }
    }

    /// The same without a field that the command does not know.
    pub(crate) fn write_without(&self, name: &str, command: &mut CommandWriter<'_>) {
        match &self.document {
            Some(document) if matches!(document.get(name), Ok(Some(_))) => {
                command.fields(&without(name, document));
            }
            _ => self.write(command),
        }
    }

    fn fail(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }
}

fn without(name: &str, document: &RawDocumentBuf) -> RawDocumentBuf {
    let mut kept = RawDocumentBuf::new();
    for (key, value) in document.iter().flatten() {
        if key != name {
            kept.append(key, value);
        }
    }
    kept
}

/// What the options of one action add to its command.
pub(crate) struct Settings {
    pub(crate) shared: Arc<CollectionShared>,
    pub(crate) fields: Fields,
    timeout: Option<Duration>,
    /// When its time began, if it may have several commands.
    began: Option<Instant>,
    /// Whether each batch of its cursor has the time again, even if it is one of its own.
    is_time_per_batch: bool,
    /// Other concerns than the collection's.
    concerns: Option<Concerns>,
    /// Whether one for writes is among them.
    has_write_concern: bool,
    session: Option<Arc<KeptSession>>,
}

impl Settings {
    pub(crate) fn new(shared: &Arc<CollectionShared>) -> Self {
        let shared = Arc::clone(shared);
        Self {
            shared,
            fields: Fields::default(),
            timeout: None,
            began: None,
            is_time_per_batch: false,
            concerns: None,
            has_write_concern: false,
            session: None,
        }
    }

    pub(crate) fn set_session(&mut self, session: &ClientSession) {
        self.session = Some(Arc::clone(session.kept()));
    }

    /// The session of the user, or one of its own.
    ///
    /// # Errors
    /// The user's is another client's, or another operation uses it.
    pub(crate) fn used_session(&self, core: &Rc<ClientCore>) -> Result<UsedSession> {
        match &self.session {
            None => Ok(UsedSession::own(core.session())),
            Some(kept) => {
                let mut session = core.kept_session(kept)?;
                session.transaction.note_operation();
                Ok(session)
            }
        }
    }

    /// Whether the session of the user has a transaction, which has concerns of its own.
    pub(crate) fn is_in_transaction(&self) -> bool {
        let is_open = |kept: &Arc<KeptSession>| kept.with_transaction(|it| it.is_open());
        self.session.as_ref().map(is_open).is_some_and(|is_open| is_open.unwrap_or(false))
    }

    /// Its concerns: those of the action, or else of its collection.
    pub(crate) fn concerns_now(&self) -> &Concerns {
        self.concerns.as_ref().unwrap_or_else(|| self.shared.concerns())
    }

    /// The time that is left to it.
    pub(crate) fn time(&self, core: &Rc<ClientCore>) -> OperationTime {
        let time = core.time(self.timeout.or(self.concerns_now().time));
        let time = if self.is_time_per_batch { time.untold() } else { time };
        self.began.map_or(time, |began| time.since(began))
    }

    /// The time of further batches, and whether the first one is told what is left of all.
    ///
    /// Specification: Client Side Operations Timeout, "timeoutMode".
    pub(crate) fn batch_time(&mut self, core: &Rc<ClientCore>) -> BatchTime {
        let time = self.time(core);
        BatchTime::of(time, || *self.began.get_or_insert_with(now_exact))
    }

    pub(crate) fn set_time_per_batch(&mut self) {
        self.is_time_per_batch = true;
    }

    /// Begins the one time that is over all commands.
    pub(crate) fn begin(&mut self) {
        self.began = Some(now_exact());
    }

    pub(crate) fn set_timeout(&mut self, limit: Duration) {
        self.timeout = Some(limit);
    }

    pub(crate) fn set_read_concern(&mut self, concern: &ReadConcern) {
        let document = RawDocumentBuf::try_from(&concern.to_document());
        self.set_concern(document.map_err(Error::encoding), |concerns| &mut concerns.read);
    }

    pub(crate) fn set_write_concern(&mut self, concern: &WriteConcern) {
        let document = crate::options::write_concern(concern);
        self.set_concern(document, |concerns| &mut concerns.write);
        self.has_write_concern = true;
    }

    /// # Errors
    /// The action has a write concern of its own, and is one of a transaction: only the commit has one.
    ///
    /// Specification: Transactions, "writeConcern".
    pub(crate) fn check_concern(&self, session: &Session) -> Result {
        if self.has_write_concern && session.transaction.is_open() {
            let what = "Cannot set write concern after starting a transaction: that of the transaction holds";
            return Err(Error::new(Kind::Options, Fate::NotSent, what));
        }
        Ok(())
    }

    pub(crate) fn set_read_preference(&mut self, preference: &ReadPreference) {
        match Reads::new(preference) {
            Ok(reads) => self.concerns().reads = Some(Arc::new(reads)),
            Err(fault) => self.fields.fail(fault),
        }
    }

    fn concerns(&mut self) -> &mut Concerns {
        self.concerns.get_or_insert_with(|| self.shared.concerns().clone())
    }

    fn set_concern(
        &mut self,
        document: Result<RawDocumentBuf>,
        which: impl FnOnce(&mut Concerns) -> &mut Option<RawDocumentBuf>,
    ) {
        match document {
            Ok(document) => *which(self.concerns()) = Some(document),
            Err(fault) => self.fields.fail(fault),
        }
    }

    /// Runs a command in a session of its own.
    pub(crate) async fn run<R>(
        &mut self,
        core: &Rc<ClientCore>,
        (kind, purpose): (CommandKind, Purpose),
        write: impl Fn(CommandWriter<'_>) -> Result<usize, MongoFault>,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut session = self.used_session(core)?;
        self.run_in(core, &mut session, (kind, purpose), write, read).await
    }

    /// Runs a command in a session. `write` appends what is not an option, and finishes it.
    pub(crate) async fn run_in<R>(
        &mut self,
        core: &Rc<ClientCore>,
        session: &mut Session,
        (kind, purpose): (CommandKind, Purpose),
        write: impl Fn(CommandWriter<'_>) -> Result<usize, MongoFault>,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let write = |slot: Slot<'_>, template: &CommandTemplate, fields: &Fields| {
            let mut command = slot.begin(template);
            fields.write(&mut command);
            write(command).map(drop).map_err(unsendable)
        };
        self.run_written(core, session, (kind, purpose), write, read).await
    }

    /// Runs a command that `write` begins by its template, and gives its options.
    pub(crate) async fn run_written<R>(
        &mut self,
        core: &Rc<ClientCore>,
        session: &mut Session,
        (kind, purpose): (CommandKind, Purpose),
        write: impl Fn(Slot<'_>, &CommandTemplate, &Fields) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        self.fields.check()?;
        self.check_concern(session)?;
        // A transaction has its own: "Drivers MUST NOT" send those of its commands.
        let none = Concerns::default();
        let concerns = match session.transaction.is_open() {
            true => Some(&none),
            false => self.concerns.as_ref(),
        };
        let has_own = !session.transaction.is_open()
            && session.times.as_ref().is_some_and(|times| times.has_concern());
        let bare = (has_own && !kind.is_write())
            .then(|| concerns.unwrap_or_else(|| self.shared.concerns()).unread());
        let time = self.time(core);
        let is_timeless = kind.is_write() && time.is_told();
        let timeless = is_timeless
            .then(|| concerns.unwrap_or_else(|| self.shared.concerns()).timeless())
            .flatten();
        let other = bare.as_ref().or(timeless.as_ref()).or(concerns);
        let built = other.map(|concerns| self.shared.build(kind, concerns));
        let template = built.as_ref().unwrap_or_else(|| self.shared.template(kind));
        let concerns = concerns.unwrap_or_else(|| self.shared.concerns());
        // A write has no level of a read concern, only the time that it is behind.
        let level = concerns.read.as_ref().filter(|_| !kind.is_write());
        let concern = has_own.then_some(ReadConcernOf(level));
        let purpose = if kind.is_unanswered(concerns) { Purpose::Unanswered } else { purpose };
        check_unanswered(purpose, session)?;
        if time.is_told() {
            self.fields.remove(MAX_TIME);
        }
        let reads = concerns.reads.as_deref();
        let attempt = Attempt { reads, concern, ..Attempt::new(session, time, purpose) };
        let fields = &self.fields;
        core.run_in(attempt, |slot| write(slot, template, fields), read).await
    }
}

/// # Errors
/// Nobody answers the write, and the session is the user's. Specification: Driver Sessions, "Unacknowledged writes".
pub(crate) fn check_unanswered(purpose: Purpose, session: &Session) -> Result {
    if purpose == Purpose::Unanswered && session.is_of_user() {
        let what = "a write that nobody answers (w=0) is none of a session: Cannot combine an explicit session with an unacknowledged write concern";
        return Err(Error::new(Kind::Options, Fate::NotSent, what));
    }
    Ok(())
}

/// The table of options: how each is set. An action lists those that it has, and where they go: `settings` for
/// its command, `statement` for the one write in it.
macro_rules! option {
    (settings.$name:ident) => { option!(@ $name, settings.fields); };
    (statement.$name:ident) => { option!(@ $name, statement); };
    (@ sort, $($place:ident).+) => {
        /// Sets the order in which documents are looked at; that of the server by default.
        pub fn sort(mut self, order: impl IntoRaw) -> Self {
            self.$($place).+.set_document("sort", order.into_raw());
            self
        }
    };
    (@ projection, $($place:ident).+) => {
        /// Sets which fields are returned; all by default.
        pub fn projection(mut self, fields: impl IntoRaw) -> Self {
            self.$($place).+.set_document("projection", fields.into_raw());
            self
        }
    };
    (@ collation, $($place:ident).+) => {
        /// Sets by which language's rules strings are compared.
        pub fn collation(mut self, collation: impl IntoRaw) -> Self {
            self.$($place).+.set_document("collation", collation.into_raw());
            self
        }
    };
    (@ hint, $($place:ident).+) => {
        /// Sets the index to use: its name, or its keys as a document.
        pub fn hint(mut self, index: impl Into<bson::Bson>) -> Self {
            self.$($place).+.set_value("hint", index.into());
            self
        }
    };
    (@ array_filters, $($place:ident).+) => {
        /// Sets which elements of arrays an update changes, for `$[name]` in it.
        pub fn array_filters<S: IntoRaw>(mut self, filters: impl IntoIterator<Item = S>) -> Self {
            let filters = $crate::raw_argument::array(filters);
            self.$($place).+.set_raw("arrayFilters", filters);
            self
        }
    };
    (@ upsert, $($place:ident).+) => {
        /// Sets whether a document is written if none matches; false by default.
        pub fn upsert(mut self, is_upsert: bool) -> Self {
            self.$($place).+.set("upsert", is_upsert);
            self
        }
    };
    (@ let_vars, $($place:ident).+) => {
        /// Sets variables that expressions read as `$$name`.
        pub fn let_vars(mut self, variables: impl IntoRaw) -> Self {
            self.$($place).+.set_document("let", variables.into_raw());
            self
        }
    };
    (@ comment, $($place:ident).+) => {
        /// Sets a comment for the server's logs and profiles.
        pub fn comment(mut self, comment: impl Into<bson::Bson>) -> Self {
            self.$($place).+.set_value("comment", comment.into());
            self
        }
    };
    (@ allow_disk_use, $($place:ident).+) => {
        /// Sets whether the server may sort and group on its disk.
        pub fn allow_disk_use(mut self, is_allowed: bool) -> Self {
            self.$($place).+.set("allowDiskUse", is_allowed);
            self
        }
    };
    (@ bypass_document_validation, $($place:ident).+) => {
        /// Sets whether documents are written that the collection's validation refuses.
        pub fn bypass_document_validation(mut self, is_bypassed: bool) -> Self {
            self.$($place).+.set("bypassDocumentValidation", is_bypassed);
            self
        }
    };
    (@ max_time, $($place:ident).+) => {
        /// Sets how long the server works on the command at most, to the millisecond. The time of the whole
        /// operation, which the client keeps, is [`timeout`](Self::timeout).
        pub fn max_time(mut self, limit: std::time::Duration) -> Self {
            let limit = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
            self.$($place).+.set("maxTimeMS", limit);
            self
        }
    };
    (@ session, settings.fields) => {
        /// Sets the session that it runs in, and the transaction of that session if one was started.
        pub fn session(mut self, session: &crate::ClientSession) -> Self {
            self.settings.set_session(session);
            self
        }
    };
    (@ timeout, settings.fields) => {
        /// Sets the time of the whole operation, instead of the client's
        /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
        pub fn timeout(mut self, limit: std::time::Duration) -> Self {
            self.settings.set_timeout(limit);
            self
        }
    };
    (@ time_per_batch, settings.fields) => {
        /// Gives each batch the time of the operation again. A time that is set, here or for the client, is otherwise that
        /// of all batches together, with what is done between them.
        pub fn time_per_batch(mut self) -> Self {
            self.settings.set_time_per_batch();
            self
        }
    };
    (@ read_concern, settings.fields) => {
        /// Sets how many members must have a document before it is read, instead of the client's concern.
        pub fn read_concern(mut self, concern: &crate::ReadConcern) -> Self {
            self.settings.set_read_concern(concern);
            self
        }
    };
    (@ read_preference, settings.fields) => {
        /// Sets which members of a replica set answer, instead of the collection's preference. One that cannot be, such
        /// as a lag of the primary, is an error when the action runs.
        pub fn read_preference(mut self, preference: &crate::ReadPreference) -> Self {
            self.settings.set_read_preference(preference);
            self
        }
    };
    (@ write_concern, settings.fields) => {
        /// Sets which members must confirm the write, instead of the client's concern. None of them (`w=0`) is no
        /// answer: what the write has done is then not known, and its counts are 0.
        pub fn write_concern(mut self, concern: &crate::WriteConcern) -> Self {
            self.settings.set_write_concern(concern);
            self
        }
    };
}

/// Makes an action awaitable: on a core, in a task of tokio, and with
/// [`wait`](crate::Wait::wait) on a plain thread.
macro_rules! awaitable {
    ($action:ident $(<$t:ident: $bound:path>)?) => {
        impl$(<$t: $bound + Send + 'static>)? std::future::IntoFuture for $action$(<$t>)? {
            type Output = $crate::error::Result<<Self as $crate::running::Operation>::Output>;
            type IntoFuture = $crate::running::Running<Self>;

            fn into_future(self) -> Self::IntoFuture {
                $crate::running::Running::new(self)
            }
        }
    };
}

pub(crate) use {awaitable, option};
