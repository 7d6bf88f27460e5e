//! `distinct`

use std::sync::Arc;

use bson::{Bson, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, MongoFault, check_nesting};

use super::settings::{Settings, awaitable, option};
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::error::{Error, Result};
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation};

/// The different values of a field, made by [`Collection::distinct`](crate::Collection::distinct). Await it to
/// get them.
#[must_use = "an action does nothing until it is awaited"]
pub struct Distinct {
    settings: Settings,
}

impl Distinct {
    pub(crate) fn new(
        shared: &Arc<CollectionShared>,
        field: &str,
        filter: Result<RawDocumentBuf>,
    ) -> Self {
        let mut settings = Settings::new(shared);
        settings.fields.set("key", field);
        settings.fields.set_document("query", filter);
        Self { settings }
    }

    option!(settings.collation);
    option!(settings.hint);
    option!(settings.comment);
    option!(settings.max_time);
    option!(settings.read_concern);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);
}

impl Operation for Distinct {
    type Output = Vec<Bson>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Vec<Bson>> {
        let read = |answer: Answer<'_>| {
            check_nesting(answer.body()).map_err(Error::decoding)?;
            let wrong = |_| Error::reply(MongoFault::Field("values"));
            let values = answer.body().get_array("values").map_err(wrong)?;
            let decode = |value: bson::error::Result<bson::RawBsonRef<'_>>| {
                value.and_then(Bson::try_from).map_err(Error::decoding)
            };
            values.into_iter().map(decode).collect()
        };
        let command = (CommandKind::Distinct, Purpose::Read);
        self.settings.run(&core, command, |command: CommandWriter<'_>| command.finish(), read).await
    }
}

awaitable!(Distinct);
