//! Change streams of a test.

use std::collections::HashMap;
use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{ChangeStream, ClientSession, Watch};
use ringway_runtime::timeout;

use super::super::unified::documents;
use super::{Done, Stop, has_only, settings};

/// The change streams of a test, by their names.
#[derive(Default)]
pub(crate) struct Streams(HashMap<String, ChangeStream<Document>>);

/// Ends a wait for a change in vain.
const LIMIT: Duration = Duration::from_secs(20);

impl Streams {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// `createChangeStream`
    pub(crate) async fn create(
        &mut self,
        name: &str,
        mut watch: Watch<Document>,
        arguments: &Document,
        session: Option<&ClientSession>,
    ) -> Done {
        let known = [
            "pipeline",
            "fullDocument",
            "fullDocumentBeforeChange",
            "showExpandedEvents",
            "comment",
            "batchSize",
            "maxAwaitTimeMS",
            "session",
            "timeoutMS",
        ];
        has_only("createChangeStream", arguments, &known)?;
        watch = watch.pipeline(documents(arguments, "pipeline").cloned());
        if let Ok(mode) = arguments.get_str("fullDocument") {
            watch = watch.full_document(mode);
        }
        if let Ok(mode) = arguments.get_str("fullDocumentBeforeChange") {
            watch = watch.full_document_before_change(mode);
        }
        if let Ok(are_shown) = arguments.get_bool("showExpandedEvents") {
            watch = watch.show_expanded_events(are_shown);
        }
        if let Some(comment) = arguments.get("comment") {
            watch = watch.comment(comment.clone());
        }
        if let Ok(size) = arguments.get_i32("batchSize") {
            watch = watch.batch_size(size.try_into().expect("a size"));
        }
        if let Ok(millis) = arguments.get_i32("maxAwaitTimeMS") {
            let time = Duration::from_millis(millis.try_into().expect("a time"));
            watch = watch.max_await_time(time);
        }
        if let Some(limit) = settings::timeout(arguments) {
            watch = watch.timeout(limit);
        }
        if let Some(session) = session {
            watch = watch.session(session);
        }
        let stream = watch.await?;
        self.0.insert(name.to_owned(), stream);
        Ok(Bson::Null)
    }

    /// `iterateUntilDocumentOrError` and `close`
    pub(crate) async fn run(&mut self, name: &str, operation: &str) -> Done {
        match operation {
            "iterateUntilDocumentOrError" => {
                let stream = self.0.get_mut(name).expect("it is there");
                let next = timeout(LIMIT, stream.next()).await;
                let next = next.map_err(|_| Stop::Missing("change in time".to_owned()))?;
                next?.map(Bson::from).ok_or_else(|| Stop::Missing("another change".to_owned()))
            }
            "close" => {
                drop(self.0.remove(name));
                Ok(Bson::Null)
            }
            other => Err(Stop::Missing(format!("ChangeStream::{other}"))),
        }
    }
}
