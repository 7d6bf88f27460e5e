//! The version of the server's interface that a program is written for.

use bson::RawDocumentBuf;
use bson::raw::cstr;

/// A version of the server's interface ("Stable API"). Servers behave as this version says, whatever their own version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerApiVersion {
    /// Version 1, of MongoDB 5.0 and later.
    V1,
}

/// The version of the server's interface that a program is written for, which each command declares. A server that does not
/// know it refuses every command.
///
/// Specification: Stable API.
///
/// ```
/// use ringway_mongo::{ClientOptions, ServerApi, ServerApiVersion};
///
/// let api = ServerApi::new(ServerApiVersion::V1).strict(true);
/// let options = ClientOptions::parse("mongodb://127.0.0.1")?.server_api(api);
/// # Ok::<(), ringway_mongo::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerApi {
    version: ServerApiVersion,
    strict: Option<bool>,
    deprecation_errors: Option<bool>,
}

impl ServerApi {
    /// Declares a version. What it does not have is still done, and nothing is told of what is deprecated in it.
    #[must_use]
    pub fn new(version: ServerApiVersion) -> Self {
        Self { version, strict: None, deprecation_errors: None }
    }

    /// Sets whether servers refuse commands that the version does not have; false by default.
    #[must_use]
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.strict = Some(is_strict);
        self
    }

    /// Sets whether servers refuse what is deprecated in the version; false by default.
    #[must_use]
    pub fn deprecation_errors(mut self, are_errors: bool) -> Self {
        self.deprecation_errors = Some(are_errors);
        self
    }

    /// The fields of commands. What is not set is not told.
    pub(crate) fn fields(self) -> RawDocumentBuf {
        let version = match self.version {
            ServerApiVersion::V1 => "1",
        };
        let mut fields = RawDocumentBuf::new();
        fields.append(cstr!("apiVersion"), version);
        if let Some(is_strict) = self.strict {
            fields.append(cstr!("apiStrict"), is_strict);
        }
        if let Some(are_errors) = self.deprecation_errors {
            fields.append(cstr!("apiDeprecationErrors"), are_errors);
        }
        fields
    }
}
