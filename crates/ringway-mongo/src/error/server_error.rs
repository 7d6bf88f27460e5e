//! What a server says about a failure.

use bson::RawDocumentBuf;
use ringway_wire::mongo::ServerFailure;

use crate::limits::LABELS_MAX;

/// What a server said about a failure.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerError {
    /// The number, such as 11000 for a duplicate key; 0 if there is none.
    pub code: i32,
    /// The name, such as `NamespaceNotFound`; often empty for writes.
    pub code_name: String,
    /// The server's words.
    pub message: String,
    /// For a write: its position among those of its command.
    pub index: usize,
    /// What else the server says of it (`errInfo`), such as by which rule of its collection a document was refused (the
    /// error 121), or which write concern was not met.
    pub details: Option<RawDocumentBuf>,
    /// What it says of it in a word.
    labels: Vec<String>,
}

impl ServerError {
    pub(crate) fn of(failure: ServerFailure<'_>) -> Self {
        Self {
            code: failure.code(),
            code_name: failure.code_name().to_owned(),
            message: failure.message().to_owned(),
            index: failure.index(),
            details: failure.details().map(ToOwned::to_owned),
            labels: failure.labels().take(LABELS_MAX).map(str::to_owned).collect(),
        }
    }

    /// The same without anything that the command itself may have said.
    pub(super) fn redacted(&self) -> Self {
        let message =
            "what the server says is not shown, because the command may have a secret".into();
        Self { message, details: None, ..self.clone() }
    }

    pub(super) fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|it| it == label)
    }
}
