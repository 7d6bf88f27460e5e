//! Sessions of a test, and their transactions.

use std::rc::Rc;
use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{Client, ClientSession, TransactionOptions};

use super::settings::{read_concern, timeout, write_concern};
use super::{Done, Stop, Why, failed, has_only};

/// Makes a session with the options of a test.
pub(crate) fn make(client: &Client, fields: &Document) -> Result<Rc<ClientSession>, Why> {
    let mut session = client.start_session();
    let nothing = Document::new();
    for (name, value) in fields.get_document("sessionOptions").unwrap_or(&nothing) {
        session = match (&**name, value) {
            ("snapshot", Bson::Boolean(is_snapshot)) => session.snapshot(*is_snapshot),
            ("causalConsistency", Bson::Boolean(is_causal)) => {
                session.causal_consistency(*is_causal)
            }
            ("defaultTransactionOptions", Bson::Document(options)) => {
                let options = transaction_options(options).map_err(|stop| match stop {
                    Stop::Missing(what) => failed(format!("the client has no {what}")),
                    Stop::Failed(error) => failed(error.to_string()),
                })?;
                session.default_transaction_options(options)
            }
            _ => return Err(failed(format!("the client has no session with {name}"))),
        };
    }
    Ok(Rc::new(session))
}

/// The options of a transaction. Its reads go to the primary in any case.
pub(crate) fn transaction_options(arguments: &Document) -> Result<TransactionOptions, Stop> {
    let mut options = TransactionOptions::new();
    for (name, value) in arguments {
        let document = || value.as_document().expect("a document");
        options = match &**name {
            "readConcern" => options.read_concern(&read_concern(document())),
            "writeConcern" => {
                let concern = write_concern(document())
                    .map_err(|_| Stop::Missing(format!("a write concern {value}")))?;
                options.write_concern(&concern)?
            }
            "maxCommitTimeMS" => {
                let millis = value.as_i32().expect("a time").try_into().expect("a time");
                options.max_commit_time(Duration::from_millis(millis))
            }
            "readPreference" if document().get_str("mode").is_ok_and(|it| it == "primary") => {
                options
            }
            "callback" => options,
            other => return Err(Stop::Missing(format!("transaction with {other}"))),
        };
    }
    Ok(options)
}

/// Operations of sessions, but that which runs others.
pub(crate) async fn run(session: &ClientSession, name: &str, arguments: &Document) -> Done {
    match name {
        "startTransaction" => session.start_transaction(transaction_options(arguments)?)?,
        "commitTransaction" | "abortTransaction" => {
            has_only(name, arguments, &["timeoutMS"])?;
            let end = if name == "commitTransaction" { session.commit() } else { session.abort() };
            match timeout(arguments) {
                Some(limit) => end.timeout(limit).await?,
                None => end.await?,
            }
        }
        other => return Err(Stop::Missing(format!("ClientSession::{other}"))),
    }
    Ok(Bson::Null)
}

/// What a test says of a session. Its state is seen as far as it is told: whether a transaction is under way.
pub(crate) fn check(session: &ClientSession, name: &str, arguments: &Document) -> Result<(), Why> {
    let is_so = match name {
        "assertSessionPinned" => session.is_pinned(),
        "assertSessionUnpinned" => !session.is_pinned(),
        _ => {
            let state = arguments.get_str("state").expect("a state");
            session.is_open() == ["starting", "in_progress"].contains(&state)
        }
    };
    if is_so { Ok(()) } else { Err(failed(format!("{name} {arguments}"))) }
}
