//! What a client says about itself.

use bson::{RawDocument, RawDocumentBuf};

use super::command::CommandWriter;
use super::limits::MONGO_METADATA_MAX;

/// A description of the client, which servers write to their logs: driver, system, and the name that the
/// application gives itself. It has at most 512 bytes, for which the less important parts are left out.
///
/// Specification: MongoDB Handshake, "Client metadata".
#[derive(Debug, Clone)]
pub struct ClientMetadata {
    document: RawDocumentBuf,
}

/// How much of the description is left out to keep it short, least first.
const STEPS: [Parts; 4] = [
    Parts { env: true, os: true, platform: true },
    Parts { env: false, os: true, platform: true },
    Parts { env: false, os: false, platform: true },
    Parts { env: false, os: false, platform: false },
];

#[derive(Clone, Copy)]
struct Parts {
    env: bool,
    /// All fields of `os` but its type.
    os: bool,
    platform: bool,
}

impl ClientMetadata {
    /// A description. `application` is the name of the program, at most 128 bytes, which is never left out;
    /// `version` that of the driver; `container` tells what the program runs in, such as `kubernetes`.
    #[must_use]
    pub fn new(application: Option<&str>, version: &str, container: Option<&str>) -> Self {
        let of = |parts| describe(application, version, container, parts);
        let short = STEPS
            .into_iter()
            .map(of)
            .find(|document| document.as_bytes().len() <= MONGO_METADATA_MAX);
        Self { document: short.unwrap_or_else(|| of(STEPS[STEPS.len() - 1])) }
    }

    /// The description as `hello` carries it.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        &self.document
    }
}

fn describe(
    application: Option<&str>,
    version: &str,
    container: Option<&str>,
    parts: Parts,
) -> RawDocumentBuf {
    CommandWriter::document_of(|writer| {
        if let Some(name) = application {
            writer.nested("application", |part| part.str("name", name));
        }
        writer.nested("driver", |part| {
            part.str("name", "ringway");
            part.str("version", version);
        });
        writer.nested("os", |part| {
            part.str("type", "Linux");
            if parts.os {
                part.str("architecture", std::env::consts::ARCH);
            }
        });
        if parts.platform {
            writer.str("platform", "Rust, Ringway runtime");
        }
        if let Some(container) = container.filter(|_| parts.env) {
            writer.nested("env", |part| {
                part.nested("container", |part| part.str("orchestrator", container));
            });
        }
    })
}
