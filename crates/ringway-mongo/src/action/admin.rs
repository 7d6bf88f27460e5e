//! Databases, collections and indexes: listing and making them.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf};
use ringway_wire::mongo::MongoFault;

use super::command::Command;
use super::settings::Fields;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::Concerns;
use crate::decode::decode;
use crate::error::{Error, Result};
use crate::raw_argument::{IntoRaw, array};
use crate::session::KeptSession;
use crate::transaction::ClientSession;

/// The future of an action that is seldom needed.
type BoxedAction<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A list of databases, made by [`Client::list_databases`](crate::Client::list_databases). Await it to get them.
#[must_use = "an action does nothing until it is awaited"]
pub struct ListDatabases {
    client: Arc<ClientShared>,
    command: Fields,
    time: Option<Duration>,
    session: Option<Arc<KeptSession>>,
}

impl ListDatabases {
    pub(crate) fn new(client: &Arc<ClientShared>, filter: Result<RawDocumentBuf>) -> Self {
        let mut command = Fields::default();
        command.set("listDatabases", 1);
        match filter {
            Ok(filter) if filter.is_empty() => {}
            filter => command.set_document("filter", filter),
        }
        Self { client: Arc::clone(client), command, time: None, session: None }
    }

    /// Sets the time of the operation, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.time = Some(limit);
        self
    }

    /// Sets the session that it runs in.
    pub fn session(mut self, session: &ClientSession) -> Self {
        self.session = Some(Arc::clone(session.kept()));
        self
    }

    /// Sets whether only the names are listed, which is faster.
    pub fn name_only(mut self, is_only_name: bool) -> Self {
        self.command.set("nameOnly", is_only_name);
        self
    }
}

impl IntoFuture for ListDatabases {
    type Output = Result<Vec<Document>>;
    type IntoFuture = BoxedAction<Vec<Document>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let command = self.command.into_document();
            let list = Command::new(&self.client, &Arc::from("admin"), command, Purpose::Read);
            let mut list = list.at_primary().within(self.time);
            list.session = self.session;
            let reply: Document = decode(&list.reply().await?)?;
            let wrong = |_| Error::reply(MongoFault::Field("databases"));
            let databases = reply.get_array("databases").map_err(wrong)?;
            Ok(databases.iter().filter_map(Bson::as_document).cloned().collect())
        })
    }
}

/// A new collection, made by [`Database::create_collection`](crate::Database::create_collection). Await it to have
/// it made.
#[must_use = "an action does nothing until it is awaited"]
pub struct CreateCollection {
    client: Arc<ClientShared>,
    database: Arc<str>,
    command: Fields,
    concern: Option<RawDocumentBuf>,
    time: Option<Duration>,
    session: Option<Arc<KeptSession>>,
}

impl CreateCollection {
    pub(crate) fn new(
        client: &Arc<ClientShared>,
        database: &Arc<str>,
        name: &str,
        concerns: &Concerns,
    ) -> Self {
        let mut command = Fields::default();
        command.set("create", name);
        let (client, database) = (Arc::clone(client), Arc::clone(database));
        let (concern, time) = (concerns.write.clone(), concerns.time);
        Self { client, database, command, concern, time, session: None }
    }

    /// Sets the session that it runs in, and the transaction of that session if one was started.
    pub fn session(mut self, session: &ClientSession) -> Self {
        self.session = Some(Arc::clone(session.kept()));
        self
    }

    /// Keeps at most so many bytes; the oldest documents go first.
    pub fn capped(mut self, bytes_max: u64) -> Self {
        self.command.set("capped", true);
        self.command.set("size", i64::try_from(bytes_max).unwrap_or(i64::MAX));
        self
    }

    /// Sets any other option by the server's name for it, such as `validator` or `timeseries`.
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.command.set_value(name, value.into());
        self
    }
}

impl IntoFuture for CreateCollection {
    type Output = Result;
    type IntoFuture = BoxedAction<()>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, database, command, concern, time, session } = self;
            let command = command.into_document();
            let create = Command::new(&client, &database, command, Purpose::WriteOnce);
            // Of a transaction, the commit has the concern.
            let concern = concern.as_ref();
            let is_open = |kept: &Arc<KeptSession>| kept.with_transaction(|it| it.is_open());
            let is_in_transaction = session.as_ref().is_some_and(|it| is_open(it).unwrap_or(false));
            let mut create = create.concerned(concern.filter(|_| !is_in_transaction)).within(time);
            create.session = session;
            create.reply().await.map(drop)
        })
    }
}

/// An index to be made, by [`Collection::create_index`](crate::Collection::create_index).
///
/// ```
/// use bson::doc;
/// use ringway_mongo::IndexModel;
///
/// let by_title = IndexModel::new(doc! { "title": 1 }).unique(true).name("titles");
/// ```
#[must_use = "an index is made by `create_index`"]
pub struct IndexModel {
    fields: Fields,
    /// By the keys, unless it is set.
    name: Result<String>,
}

impl IndexModel {
    /// An index by fields, each with 1, -1, or the name of a kind such as `"text"`.
    pub fn new(keys: impl IntoRaw) -> Self {
        let keys = keys.into_raw();
        let name = match &keys {
            Ok(keys) => name_of(keys),
            Err(_) => Ok(String::new()),
        };
        let mut fields = Fields::default();
        fields.set_document("key", keys);
        Self { fields, name }
    }

    /// Sets the name; by default it is made from the keys, such as `title_1`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Ok(name.to_owned());
        self
    }

    /// Sets whether no two documents may have the same keys.
    pub fn unique(mut self, is_unique: bool) -> Self {
        self.fields.set("unique", is_unique);
        self
    }

    /// Removes documents this long after the time in the indexed field, to the second.
    pub fn expire_after(mut self, period: Duration) -> Self {
        self.fields.set("expireAfterSeconds", i64::try_from(period.as_secs()).unwrap_or(i64::MAX));
        self
    }

    /// Sets any other option by the server's name for it, such as `partialFilterExpression`.
    pub fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.fields.set_value(name, value.into());
        self
    }

    /// The index as the server takes it, and its name.
    pub(crate) fn into_parts(mut self) -> Result<(RawDocumentBuf, String)> {
        let name = self.name?;
        self.fields.set("name", &*name);
        Ok((self.fields.into_document()?, name))
    }
}

fn name_of(keys: &RawDocumentBuf) -> Result<String> {
    let mut parts = Vec::new();
    for element in keys {
        let (key, value) = element.map_err(Error::encoding)?;
        let value = match Bson::try_from(value).map_err(Error::encoding)? {
            Bson::String(kind) => kind,
            Bson::Double(number) => (number as i64).to_string(),
            other => other.to_string(),
        };
        parts.push(format!("{}_{value}", key.as_str()));
    }
    Ok(parts.join("_"))
}

/// The command that makes indexes, and their names.
pub(crate) fn create_indexes(
    collection: &str,
    models: impl IntoIterator<Item = IndexModel>,
) -> Result<(RawDocumentBuf, Vec<String>)> {
    let parts = models.into_iter().map(IndexModel::into_parts).collect::<Result<Vec<_>>>()?;
    let (indexes, names): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let mut command = Fields::default();
    command.set("createIndexes", collection);
    command.set_raw("indexes", array(indexes));
    Ok((command.into_document()?, names))
}
