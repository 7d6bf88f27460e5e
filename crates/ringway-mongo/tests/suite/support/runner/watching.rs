//! What a test waits for: events, threads and time.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::Collection;
use ringway_runtime::{JoinHandle, sleep, spawn, timeout};

use super::super::unified::{Entities, matches};
use super::super::until;
use super::events::Told;
use super::{Stop, Why, crud, failed};

/// Ends a wait in vain; what is waited for takes some periods of half a second.
const LIMIT: Duration = Duration::from_secs(20);

type Events = Arc<Mutex<Vec<Told>>>;

/// `waitForEvent`
pub(crate) async fn wait_for_event(told: &Events, arguments: &Document) -> Result<(), Why> {
    let least = count_of(arguments);
    let is_told = || count(&lock(told), event(arguments)) >= least;
    timeout(LIMIT, until(is_told)).await.map_err(|_| {
        let told: Vec<_> = lock(told).iter().map(|it| format!("{it:?}")).collect();
        failed(format!("{arguments} was not told: {told:?}"))
    })
}

/// `assertEventCount`
pub(crate) fn check_count(told: &Events, arguments: &Document) -> Result<(), Why> {
    let (found, expected) = (count(&lock(told), event(arguments)), count_of(arguments));
    match found == expected {
        true => Ok(()),
        false => Err(failed(format!("{found} events, {arguments}"))),
    }
}

/// `wait`
pub(crate) async fn wait(arguments: &Document) {
    let millis = arguments.get_i32("ms").expect("a time");
    sleep(Duration::from_millis(millis.try_into().expect("a time"))).await;
}

/// `runOnThread`: a task does as well.
pub(crate) fn run_apart(
    things: &Collection<Document>,
    operation: &Document,
) -> JoinHandle<Result<(), Why>> {
    let (things, operation) = (things.clone(), operation.clone());
    spawn(async move {
        let name = operation.get_str("name").expect("a name");
        let arguments = operation.get_document("arguments").expect("arguments");
        let done = crud::on_collection(&things, name, arguments, None).await;
        match (done, operation.contains_key("expectError")) {
            (Ok(_), false) | (Err(Stop::Failed(_)), true) => Ok(()),
            (Ok(result), true) => Err(failed(format!("{name} did not fail: {result}"))),
            (Err(Stop::Failed(error)), false) => Err(failed(format!("{name}: {error}"))),
            (Err(Stop::Missing(what)), _) => Err(failed(format!("the client has no {what}"))),
        }
    })
}

fn lock(told: &Events) -> MutexGuard<'_, Vec<Told>> {
    told.lock().expect("no panic")
}

fn event(arguments: &Document) -> &Document {
    arguments.get_document("event").expect("an event")
}

fn count_of(arguments: &Document) -> usize {
    arguments.get_i32("count").expect("a number").try_into().expect("a number")
}

fn count(told: &[Told], event: &Document) -> usize {
    let (kind, fields) = event.iter().next().expect("a kind");
    let is_it = |told: &&Told| {
        let fields = fields.as_document().into_iter().flatten();
        let mut same = fields.map(|(name, value): (&String, &Bson)| match told.field(name) {
            Some(actual) => matches(&Entities::new(), value, actual).is_ok(),
            None => true,
        });
        told.is(kind) && same.all(|is_same| is_same)
    };
    told.iter().filter(is_it).count()
}
