//! The specifications' tests of command monitoring, sessions and collections, on FerretDB behind a proxy that fails on
//! demand.

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_suite;

/// What says why a test does not pass, and the reason.
type Reasons = [(&'static str, &'static str)];

fn check(folder: &str, shape: Shape, passed: usize, reasons: &Reasons) {
    let Some(tally) = run_suite(folder, shape) else { return };
    tally.check(folder, reasons);
    assert_eq!(tally.passed, passed);
}

#[test]
fn commands_are_told_as_specified() {
    let reasons = [
        ("is not implemented yet", "FerretDB has no `returnKey`"),
        ("there is no n in", "FerretDB does not count what it has refused"),
    ];
    check("command_monitoring", Shape::ReplicaSet, 29, &reasons);
}

#[test]
fn sessions_are_used_as_specified() {
    let reasons = [
        ("the result of", "FerretDB has no snapshots, and shows what it has"),
        (
            "has no assertSession",
            "whether a session is used again is seen in its next command only",
        ),
    ];
    check("sessions", Shape::ReplicaSet, 20, &reasons);
}

#[test]
fn collections_are_managed_as_specified() {
    let reasons = [
        ("is not implemented yet", "FerretDB has no time series"),
        ("the result of list", "FerretDB has no clustered indexes"),
    ];
    check("collection_management", Shape::ReplicaSet, 2, &reasons);
}
