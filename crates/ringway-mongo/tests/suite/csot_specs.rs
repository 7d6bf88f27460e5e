//! The specification's tests of the one time of an operation, against a double that waits and fails on demand.

use serde_json::{Value, json};

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_files;
use crate::support::specs;

/// All times of the tests are so many times as long, on both sides, so that a loaded machine keeps to them.
const SLOWER: u64 = 3;

/// A test that fails has so many runs: a machine may stand still for longer than any of its times.
const RUNS_MAX: usize = 4;

/// The names of times, in milliseconds.
const TIMES: [&str; 8] = [
    "timeoutMS",
    "defaultTimeoutMS",
    "socketTimeoutMS",
    "blockTimeMS",
    "maxTimeMS",
    "maxAwaitTimeMS",
    "maxCommitTimeMS",
    "ms",
];

fn slow_down(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(slow_down),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_time = TIMES.contains(&&**name);
                match value {
                    value if is_time && value.is_u64() => {
                        *value = json!(value.as_u64().expect("a number") * SLOWER);
                    }
                    Value::Object(bound) if is_time && bound.contains_key("$$lte") => {
                        bound["$$lte"] = json!(bound["$$lte"].as_u64().expect("a time") * SLOWER);
                    }
                    value => slow_down(value),
                }
            }
        }
        _ => {}
    }
}

const REASONS: [(&str, &str); 25] = [
    ("has no Collection::count", "`count` is deprecated, and not there"),
    ("with cursorType", "the runner makes no cursors that wait for news"),
    ("with maxAwaitTimeMS", "the same"),
    ("with maxTimeMS", "only operations on documents have a time of the server"),
    ("6 events are expected, not", "a cursor that has failed is ended in the background"),
    ("commandStartedEvent killCursors", "and in a time of its own"),
    ("has no cappedCollection", "the runner has no collections that operations make"),
    ("has no threads for", "the runner has threads for collections only"),
    (
        "2 events are expected, not [(\"commandStartedEvent\", ",
        "socketTimeoutMS is the time of the whole operation, after which nothing is tried again",
    ),
    ("took longer than 300ms", "the same"),
    (
        "3 events are expected, not",
        "each command of a change stream has the time, also when it is opened again",
    ),
    (
        "transaction with timeoutMS",
        "`with_transaction` has the time of the specification, two minutes",
    ),
    ("insertOne did not fail", "the same"),
    ("session with defaultTimeoutMS", "each operation of a session has its own time"),
    ("has no ChangeStream::iterateOnce", "change streams wait for a change, or their end"),
    (
        "aggregate did not fail",
        "each batch may have the time of the client again, which it has by default",
    ),
    ("find did not fail", "the same"),
    ("with timeoutMode", "lists, and commands of the user, have no mode"),
    ("GridFs::", "each command of an operation on files has the time"),
    ("upload did not fail", "the same"),
    ("delete did not fail", "the same"),
    ("download did not fail", "the same"),
    ("drop did not fail", "the same"),
    ("find with filter", "files are found as documents of their collection"),
    ("waitQueueTimeoutMS", "the time of the operation is over waiting as well"),
];

#[test]
fn one_time_is_over_an_operation_as_specified() {
    let Some(mut files) = specs::files("csot") else { return };
    files.iter_mut().for_each(|(_, file)| slow_down(file));
    let Some(mut tally) = run_files(files.clone(), Shape::Whole) else { return };
    for _ in 1..RUNS_MAX {
        let again = tally.take_strange(&REASONS);
        if again.is_empty() {
            break;
        }
        println!("csot: once more: {again:?}");
        let again = specs::only(files.clone(), &again);
        tally.add(run_files(again, Shape::Whole).expect("it has run before"));
    }
    tally.check_failed("csot", &REASONS);
    assert!(tally.passed >= 305, "{} have passed", tally.passed);
}
