//! Operations of a thread that blocks, as programs without tasks run them.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use ringway_mongo::Wait;
use ringway_runtime::sleep;

use super::{Comparison, MongoLane, Score, is_planned};
use crate::args::MongoOp;
use crate::limits;

/// What a thread and the core that keeps its score have in common.
#[derive(Default)]
struct ThreadRecord {
    is_over: AtomicBool,
    ended: Mutex<Vec<Ended>>,
}

/// An operation that has ended.
struct Ended {
    outcome: ringway_mongo::Result<Comparison>,
    begun: Instant,
    at: Instant,
}

impl ThreadRecord {
    fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs the operations of `lane` on a thread of their own. The core looks seldom, so that it does not disturb.
pub(super) async fn run(lane: MongoLane, op: MongoOp, score: Rc<Score>) {
    let (told, shared) = (Arc::<ThreadRecord>::default(), Arc::clone(&lane.shared));
    let tell = Arc::clone(&told);
    let started =
        thread::Builder::new().name("mongo blocking".into()).spawn(move || block(lane, op, &tell));
    let thread = match started {
        Ok(thread) => thread,
        Err(error) => return score.failed(false, false, &format!("no thread: {error}")),
    };
    loop {
        sleep(limits::MONGO_LOOK_PERIOD).await;
        told.is_over.store(score.is_over(), Ordering::Relaxed);
        let has_ended = thread.is_finished();
        for Ended { outcome, begun, at } in told.take() {
            shared.note(outcome, begun, at, &score);
        }
        if has_ended {
            break;
        }
    }
    if thread.join().is_err() {
        score.failed(false, false, "a thread panicked");
    }
}

fn block(mut lane: MongoLane, op: MongoOp, told: &ThreadRecord) {
    while !told.is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let outcome = lane.one(op).wait();
        let ended = Ended { outcome, begun, at: Instant::now() };
        let has_failed = ended.outcome.as_ref().is_err_and(|error| !is_planned(error));
        told.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        if has_failed {
            thread::park_timeout(limits::FAILED_CALL_PAUSE);
        }
    }
}
