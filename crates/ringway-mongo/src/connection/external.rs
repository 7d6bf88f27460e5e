//! Users that are not in a database of the server: those of certificates (MONGODB-X509), and those of whom the server asks
//! somebody else (PLAIN). Specification: Authentication.

use std::cell::Cell;

use bson::raw::cstr;
use bson::{RawDocumentBuf, rawdoc};
use ringway_wire::mongo::CommandWriter;

use super::authentication::ServerStep;
use super::{Answer, ServerConnection, unsendable};
use crate::error::{Error, Fate, Kind, Result};
use crate::options::PlainLogin;

/// The database of such users.
const EXTERNAL: &str = "$external";

/// What `hello` says for a certificate, so that most servers need no more.
pub(super) fn speculate_x509(user: Option<&str>) -> RawDocumentBuf {
    let mut document = authenticate(user);
    document.append(cstr!("db"), EXTERNAL);
    document
}

/// Has the server take the user of the connection's certificate.
pub(super) async fn run_x509(connection: &mut ServerConnection, user: Option<&str>) -> Result {
    let command = authenticate(user);
    run(connection, EXTERNAL, |writer| writer.fields(&command), |_| Ok(())).await
}

/// Sends a name and a password as they are. The caller has made sure that nobody can read them on their way.
///
/// RFC 4616, with no other name than that of the user.
pub(super) async fn run_plain(connection: &mut ServerConnection, login: &PlainLogin) -> Result {
    let payload = format!("\0{}\0{}", login.user, login.password);
    let write = |writer: &mut CommandWriter<'_>| {
        writer.i32("saslStart", 1);
        writer.str("mechanism", "PLAIN");
        writer.binary("payload", payload.as_bytes());
        writer.i32("autoAuthorize", 1);
    };
    let read = |answer: Answer<'_>| {
        let step = ServerStep::of(answer.body()).map_err(Error::reply)?;
        match step.is_done {
            true => Ok(()),
            false => {
                let what = "cannot authenticate: the server wants more than PLAIN has";
                Err(Error::new(Kind::Authentication, Fate::NotSent, what))
            }
        }
    };
    run(connection, &login.source, write, read).await
}

fn authenticate(user: Option<&str>) -> RawDocumentBuf {
    let mut command = rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
    user.iter().for_each(|user| command.append(cstr!("user"), *user));
    command
}

async fn run(
    connection: &mut ServerConnection,
    source: &str,
    write: impl FnOnce(&mut CommandWriter<'_>),
    read: impl FnOnce(Answer<'_>) -> Result,
) -> Result {
    let api = connection.api();
    let write = |id, out: &mut Vec<u8>| {
        let mut writer = CommandWriter::new(out, id);
        write(&mut writer);
        writer.str("$db", source);
        api.iter().for_each(|api| writer.fields(api));
        writer.finish().map(drop).map_err(unsendable)
    };
    let done = connection.run(&Cell::new(false), write, read).await;
    done.map_err(|error| match error.server() {
        Some(_) => error.into_kind(Kind::Authentication),
        None => error,
    })
}
