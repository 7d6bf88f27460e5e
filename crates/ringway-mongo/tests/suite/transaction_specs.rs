//! The specifications' tests of transactions, against a double that undoes them, behind a proxy that fails on demand.

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_suite;

/// What says why a test does not pass, and the reason.
type Reasons = [(&'static str, &'static str)];

fn check(folder: &str, shape: Shape, passed: usize, reasons: &Reasons) {
    let Some(tally) = run_suite(folder, shape) else { return };
    tally.check(folder, reasons);
    assert_eq!(tally.passed, passed);
}

const REASONS: [(&str, &str); 5] = [
    (
        "transaction with readPreference",
        "the primary answers the reads of a transaction, and nothing else can be asked for",
    ),
    ("find did not fail", "so it does whatever the preference of the client is"),
    ("createIndex with session", "indexes are not made in sessions"),
    ("has no Collection::count", "`count` is deprecated, and not there"),
    (
        "took longer than 100ms",
        "socketTimeoutMS is the time of the whole operation, after which nothing is tried again",
    ),
];

#[test]
fn transactions_of_a_replica_set_are_as_specified() {
    check("transactions/unified", Shape::Whole, 165, &REASONS);
}

#[test]
fn transactions_of_a_sharded_cluster_are_as_specified() {
    check("transactions/unified", Shape::Sharded, 243, &REASONS);
}

#[test]
fn transactions_are_run_again_as_specified() {
    check("transactions-convenient-api/unified", Shape::Whole, 29, &[]);
    check("transactions-convenient-api/unified", Shape::Sharded, 29, &[]);
}
