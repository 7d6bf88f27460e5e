//! Batches of cursors.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::command_reply::{field, number};
use super::fault::MongoFault;

/// What `find`, `aggregate` and `getMore` answer, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct CursorReply<'a> {
    /// The cursor at the server, for the next batch; 0 when there is none.
    pub id: i64,
    /// The database and the collection, with a dot between them.
    pub namespace: &'a str,
    /// The documents.
    pub batch: &'a RawArray,
}

impl<'a> CursorReply<'a> {
    /// Reads the body of a reply whose `ok` is 1.
    ///
    /// # Errors
    /// A field is missing or has another type.
    pub fn of(body: &'a RawDocument) -> Result<Self, MongoFault> {
        let cursor = field(body, "cursor")?.and_then(RawBsonRef::as_document);
        let cursor = cursor.ok_or(MongoFault::Field("cursor"))?;
        let (mut id, mut namespace, mut batch) = (None, "", None);
        for element in cursor.iter_elements() {
            let element = element.map_err(|_| MongoFault::Document("a cursor"))?;
            let value = || element.value().map_err(|_| MongoFault::Document("a cursor"));
            match element.key().as_str() {
                "id" => id = exact(value()?),
                "ns" => namespace = value()?.as_str().ok_or(MongoFault::Field("ns"))?,
                "firstBatch" | "nextBatch" => batch = value()?.as_array(),
                _ => {}
            }
        }
        let id = id.ok_or(MongoFault::Field("cursor.id"))?;
        let batch = batch.ok_or(MongoFault::Field("cursor.firstBatch"))?;
        Ok(Self { id, namespace, batch })
    }
}

/// The number of a cursor uses all 64 bits, which a double would round.
fn exact(value: RawBsonRef<'_>) -> Option<i64> {
    value.as_i64().or_else(|| number(value).map(|number| number as i64))
}
