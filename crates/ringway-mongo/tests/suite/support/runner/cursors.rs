//! Cursors that a test keeps, and the connections that they and transactions have behind a load balancer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{
    ClientSession, Collection, CommandCursor, CommandEvent, CommandPhase, Cursor, PoolChange,
    PoolEvent, Running,
};

use super::super::until;
use super::settings::timeout;
use super::{Done, Stop, Why, failed, has_only};

/// Ends a wait in vain; what is waited for takes milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// The cursors of a test, by their names.
#[derive(Default)]
pub(crate) struct Cursors(HashMap<String, KeptCursor>);

struct KeptCursor {
    cursor: Cursor<Document>,
    has_failed: bool,
    used: Arc<Use>,
}

/// What the connections of a client do.
#[derive(Default)]
pub(crate) struct Use {
    leased: AtomicUsize,
    /// Cursors that the server was told to end, whatever it said.
    killed: AtomicUsize,
}

impl Use {
    pub(crate) fn note_pool(&self, event: &PoolEvent<'_>) {
        match event.change {
            PoolChange::CheckedOut { .. } => drop(self.leased.fetch_add(1, Ordering::SeqCst)),
            PoolChange::CheckedIn { .. } => drop(self.leased.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
    }

    pub(crate) fn note_command(&self, event: &CommandEvent<'_>) {
        let is_over = !matches!(event.phase, CommandPhase::Started { .. });
        self.killed.fetch_add((is_over && event.name == "killCursors").into(), Ordering::SeqCst);
    }

    fn leased(&self) -> usize {
        self.leased.load(Ordering::SeqCst)
    }

    fn killed(&self) -> usize {
        self.killed.load(Ordering::SeqCst)
    }

    /// `assertNumberConnectionsCheckedOut`. What is dropped goes back in the background.
    pub(crate) async fn check(&self, count: i32) -> Result<(), Why> {
        let count = usize::try_from(count).expect("a number of connections");
        let is_so = ringway_runtime::timeout(LIMIT, until(|| self.leased() == count)).await;
        is_so.map_err(|_| failed(format!("{} connections are leased, not {count}", self.leased())))
    }
}

impl Cursors {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// `createFindCursor`
    pub(crate) async fn create(
        &mut self,
        name: &str,
        (things, used): (&Collection<Document>, &Arc<Use>),
        arguments: &Document,
        session: Option<&ClientSession>,
    ) -> Done {
        let mut find = things.find(arguments.get_document("filter").expect("a filter").clone());
        if let Ok(size) = arguments.get_i32("batchSize") {
            find = find.batch_size(size.try_into().expect("a size"));
        }
        if let Some(session) = session {
            find = find.session(session);
        }
        if let Some(limit) = timeout(arguments) {
            find = find.timeout(limit);
        }
        if arguments.get_str("timeoutMode").is_ok_and(|it| it == "iteration") {
            find = find.time_per_batch();
        }
        let known = ["filter", "batchSize", "session", "timeoutMS", "timeoutMode"];
        has_only("createFindCursor", arguments, &known)?;
        let (cursor, used) = (find.await?, Arc::clone(used));
        let kept = KeptCursor { cursor, has_failed: false, used };
        self.0.insert(name.to_owned(), kept);
        Ok(Bson::Null)
    }

    /// `createCommandCursor`
    pub(crate) async fn keep(
        &mut self,
        name: &str,
        used: &Arc<Use>,
        command: Result<Running<CommandCursor<Document>>, Stop>,
    ) -> Done {
        let (cursor, used) = (command?.await?, Arc::clone(used));
        let kept = KeptCursor { cursor, has_failed: false, used };
        self.0.insert(name.to_owned(), kept);
        Ok(Bson::Null)
    }

    /// `iterateUntilDocumentOrError` and `close`
    pub(crate) async fn run(&mut self, name: &str, operation: &str) -> Done {
        match operation {
            "iterateUntilDocumentOrError" => {
                let kept = self.0.get_mut(name).expect("it is there");
                let next = kept.cursor.next().await;
                kept.has_failed |= next.is_err();
                next?.map(Bson::from).ok_or_else(|| Stop::Missing("another document".to_owned()))
            }
            "close" => {
                let kept = self.0.remove(name).expect("it is there");
                let used = Arc::clone(&kept.used);
                let (leased, killed) = (used.leased(), used.killed());
                let is_over = kept.has_failed || format!("{:?}", kept.cursor).contains("id: 0");
                drop(kept);
                let is_done = || is_over || used.leased() < leased || used.killed() > killed;
                let done = ringway_runtime::timeout(LIMIT, until(is_done)).await;
                done.map_err(|_| Stop::Missing("end of a cursor that was dropped".to_owned()))?;
                Ok(Bson::Null)
            }
            other => Err(Stop::Missing(format!("Cursor::{other}"))),
        }
    }
}
