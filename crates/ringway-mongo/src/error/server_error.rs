//! What a server says about a failure.

use ringway_wire::mongo::ServerFailure;

use crate::limits::LABELS_MAX;

/// What a server said about a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerError {
    /// The number, such as 11000 for a duplicate key; 0 if there is none.
    pub code: i32,
    /// The name, such as `NamespaceNotFound`; often empty for writes.
    pub code_name: String,
    /// The server's words.
    pub message: String,
    /// For a write: its position among those of its command.
    pub index: usize,
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
            labels: failure.labels().take(LABELS_MAX).map(str::to_owned).collect(),
        }
    }

    pub(super) fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|it| it == label)
    }
}
