//! What a client says about itself.

use bson::{RawDocument, RawDocumentBuf};

use super::command::CommandWriter;
use super::limits::{MONGO_METADATA_MAX, MONGO_NAME_KEPT};

/// What a client is and runs in. What is not known is `None`, or empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientDescription<'a> {
    /// The name of the program, at most 128 bytes, which is never left out.
    pub application: Option<&'a str>,
    /// The name of the driver, with those of libraries around it.
    pub driver: &'a str,
    /// The version of the driver, with those of libraries around it.
    pub version: &'a str,
    /// What the driver is made of.
    pub platform: &'a str,
    /// The name of the system, such as `Debian GNU/Linux 13 (trixie)`.
    pub os_name: Option<&'a str>,
    /// The version of the system.
    pub os_version: Option<&'a str>,
    /// The function of a cloud that the program is.
    pub function: Option<CloudFunction<'a>>,
    /// What runs the container, such as `docker`.
    pub container_runtime: Option<&'a str>,
    /// What manages the container, such as `kubernetes`.
    pub orchestrator: Option<&'a str>,
}

/// A function of a cloud.
#[derive(Debug, Clone, Copy, Default)]
pub struct CloudFunction<'a> {
    /// The name of the service, such as `aws.lambda`.
    pub name: &'a str,
    /// Seconds that the function may take.
    pub timeout_sec: Option<i32>,
    /// Megabytes of memory that it has.
    pub memory_mb: Option<i32>,
    /// Where it runs.
    pub region: Option<&'a str>,
}

/// A description of the client, which servers write to their logs: driver, system, and the name that the
/// application gives itself. It has at most 512 bytes, for which the less important parts are left out.
///
/// Specification: MongoDB Handshake, "Client metadata" and "Limitations".
#[derive(Debug, Clone)]
pub struct ClientMetadata {
    document: RawDocumentBuf,
}

/// How much of the description is left out to keep it short, least first.
const STEPS: [Parts; 4] = [
    Parts { env: Env::Whole, os: true },
    Parts { env: Env::Name, os: true },
    Parts { env: Env::Name, os: false },
    Parts { env: Env::None, os: false },
];

#[derive(Clone, Copy)]
struct Parts {
    env: Env,
    /// All fields of `os` but its type.
    os: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Env {
    Whole,
    Name,
    None,
}

impl ClientMetadata {
    /// Makes the document. What would make it too long is left out or cut.
    #[must_use]
    pub fn new(client: &ClientDescription<'_>) -> Self {
        let fits = |document: &RawDocumentBuf| document.as_bytes().len() <= MONGO_METADATA_MAX;
        let whole = STEPS.into_iter().map(|parts| describe(client, parts)).find(fits);
        let document = whole.unwrap_or_else(|| {
            let least = STEPS[STEPS.len() - 1];
            let bare = describe(&ClientDescription { platform: "", ..*client }, least);
            let room = MONGO_METADATA_MAX.saturating_sub(bare.as_bytes().len() + FIELD_COST);
            let platform = cut(client.platform, room);
            let cut_platform = describe(&ClientDescription { platform, ..*client }, least);
            if fits(&cut_platform) { cut_platform } else { describe(&shortest(client), least) }
        });
        Self { document }
    }

    /// The description as `hello` carries it.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        &self.document
    }
}

/// Bytes of the field `platform` besides its text: kind, name, length and two ends.
const FIELD_COST: usize = 1 + 9 + 4 + 1;

/// What is left when nothing else fits.
fn shortest<'a>(client: &ClientDescription<'a>) -> ClientDescription<'a> {
    let (driver, version) = (client.driver, client.version);
    ClientDescription {
        driver: cut(driver, MONGO_NAME_KEPT),
        version: cut(version, MONGO_NAME_KEPT),
        platform: "",
        ..*client
    }
}

fn cut(text: &str, len_max: usize) -> &str {
    &text[..text.floor_char_boundary(len_max)]
}

fn describe(client: &ClientDescription<'_>, parts: Parts) -> RawDocumentBuf {
    CommandWriter::document_of(|writer| {
        if let Some(name) = client.application {
            writer.nested("application", |part| part.str("name", name));
        }
        writer.nested("driver", |part| {
            part.str("name", client.driver);
            part.str("version", client.version);
        });
        writer.nested("os", |part| {
            part.str("type", "Linux");
            if parts.os {
                client.os_name.iter().for_each(|name| part.str("name", name));
                part.str("architecture", std::env::consts::ARCH);
                client.os_version.iter().for_each(|version| part.str("version", version));
            }
        });
        if !client.platform.is_empty() {
            writer.str("platform", client.platform);
        }
        put_env(writer, client, parts.env);
    })
}

/// Writes where the program runs, if anything is known of it.
fn put_env(writer: &mut CommandWriter<'_>, client: &ClientDescription<'_>, env: Env) {
    let function = client.function.filter(|_| env != Env::None);
    let whole = env == Env::Whole;
    let runtime = client.container_runtime.filter(|_| whole);
    let orchestrator = client.orchestrator.filter(|_| whole);
    let has_container = runtime.or(orchestrator).is_some();
    if function.is_none() && !has_container {
        return;
    }
    writer.nested("env", |part| {
        if let Some(function) = function {
            part.str("name", function.name);
        }
        if let Some(function) = function.filter(|_| whole) {
            function.timeout_sec.iter().for_each(|seconds| part.i32("timeout_sec", *seconds));
            function.memory_mb.iter().for_each(|size| part.i32("memory_mb", *size));
            function.region.iter().for_each(|region| part.str("region", region));
        }
        if has_container {
            part.nested("container", |part| {
                runtime.iter().for_each(|name| part.str("runtime", name));
                orchestrator.iter().for_each(|name| part.str("orchestrator", name));
            });
        }
    });
}
