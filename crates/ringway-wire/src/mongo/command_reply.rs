//! Whether a command has succeeded.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::fault::MongoFault;

/// What a server answers to a command.
#[derive(Debug, Clone, Copy)]
pub enum CommandReply<'a> {
    /// `ok` is 1. Writes may have failed all the same: [`ServerFailure::of_write`].
    Ok(&'a RawDocument),
    /// `ok` is 0: the command was not executed, or not to its end.
    Failed(ServerFailure<'a>),
}

impl<'a> CommandReply<'a> {
    /// Reads the body of a reply.
    ///
    /// # Errors
    /// It has no `ok`, or what is read of it is not BSON.
    pub fn of(body: &'a RawDocument) -> Result<Self, MongoFault> {
        match field(body, "ok")?.and_then(number) {
            Some(1.0) => Ok(Self::Ok(body)),
            Some(_) => Ok(Self::Failed(ServerFailure { document: body, reply: body })),
            None => Err(MongoFault::Field("ok")),
        }
    }
}

/// An error that a server has sent: of a command, or of a write inside of one.
///
/// Its fields are read when they are asked for. What is missing or malformed is empty.
#[derive(Debug, Clone, Copy)]
pub struct ServerFailure<'a> {
    document: &'a RawDocument,
    /// The reply that it is a part of, or all of.
    reply: &'a RawDocument,
}

impl<'a> ServerFailure<'a> {
    /// The first error of a write in a reply whose `ok` is 1: an entry of `writeErrors`, otherwise
    /// `writeConcernError`.
    ///
    /// # Errors
    /// These fields are there but have another type.
    pub fn of_write(body: &'a RawDocument) -> Result<Option<Self>, MongoFault> {
        let Some(first) = write_errors(body)?.and_then(|errors| errors.into_iter().next()) else {
            return Self::of_write_concern(body);
        };
        let document = first.ok().and_then(RawBsonRef::as_document);
        let document = document.ok_or(MongoFault::Field("writeErrors"))?;
        Ok(Some(Self { document, reply: body }))
    }

    /// The error of the write concern of a reply whose `ok` is 1.
    ///
    /// # Errors
    /// The field is there but has another type.
    pub fn of_write_concern(body: &'a RawDocument) -> Result<Option<Self>, MongoFault> {
        match field(body, "writeConcernError")? {
            None => Ok(None),
            Some(error) => {
                let document = error.as_document().ok_or(MongoFault::Field("writeConcernError"))?;
                Ok(Some(Self { document, reply: body }))
            }
        }
    }

    /// All errors of `writeErrors`.
    ///
    /// # Errors
    /// The field is there but is no array of documents.
    pub fn of_writes(body: &'a RawDocument) -> Result<Vec<Self>, MongoFault> {
        let errors = write_errors(body)?.into_iter().flatten();
        let document = |error: Result<RawBsonRef<'a>, _>| {
            let document = error.ok().and_then(RawBsonRef::as_document);
            document
                .map(|document| Self { document, reply: body })
                .ok_or(MongoFault::Field("writeErrors"))
        };
        errors.map(document).collect()
    }

    /// The whole document.
    #[must_use]
    pub fn document(self) -> &'a RawDocument {
        self.document
    }

    /// The number of the error, such as 11000 for a duplicate key; 0 if there is none.
    #[must_use]
    pub fn code(self) -> i32 {
        field(self.document, "code").ok().flatten().and_then(number).map_or(0, |code| code as i32)
    }

    /// The name of the error, such as `NamespaceNotFound`.
    #[must_use]
    pub fn code_name(self) -> &'a str {
        self.text("codeName")
    }

    /// What the server says about it.
    #[must_use]
    pub fn message(self) -> &'a str {
        self.text("errmsg")
    }

    /// What else the server says about it (`errInfo`), such as by which rule of a collection a document is refused.
    #[must_use]
    pub fn details(self) -> Option<&'a RawDocument> {
        field(self.document, "errInfo").ok().flatten().and_then(RawBsonRef::as_document)
    }

    /// The reply that it is a part of, or all of.
    #[must_use]
    pub fn reply(self) -> &'a RawDocument {
        self.reply
    }

    /// The position of the write that failed, among those of its command.
    #[must_use]
    pub fn index(self) -> usize {
        let index = field(self.document, "index").ok().flatten().and_then(number);
        index.map_or(0, |index| index as usize)
    }

    /// Whether the server has put a label on it, such as `RetryableWriteError`.
    #[must_use]
    pub fn has_label(self, label: &str) -> bool {
        self.labels().any(|known| known == label)
    }

    /// The labels that the server has put on it, or on the whole reply.
    pub fn labels(self) -> impl Iterator<Item = &'a str> {
        let is_part = !std::ptr::eq(self.document, self.reply);
        let own = self.document.get_array("errorLabels").ok().filter(|_| is_part);
        let all = own.into_iter().chain(self.reply.get_array("errorLabels").ok());
        all.flatten().flatten().filter_map(RawBsonRef::as_str)
    }

    fn text(self, name: &str) -> &'a str {
        field(self.document, name).ok().flatten().and_then(RawBsonRef::as_str).unwrap_or("")
    }
}

fn write_errors(body: &RawDocument) -> Result<Option<&RawArray>, MongoFault> {
    match field(body, "writeErrors")? {
        None => Ok(None),
        Some(errors) => errors.as_array().map(Some).ok_or(MongoFault::Field("writeErrors")),
    }
}

pub(super) fn field<'a>(
    document: &'a RawDocument,
    name: &str,
) -> Result<Option<RawBsonRef<'a>>, MongoFault> {
    document.get(name).map_err(|_| MongoFault::Document("a reply"))
}

/// Servers send numbers as they please: `ok` is a double, a code an integer.
pub(super) fn number(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Double(number) => Some(number),
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number as f64),
        RawBsonRef::Boolean(truth) => Some(f64::from(u8::from(truth))),
        _ => None,
    }
}
