//! The specifications' tests of commands, sessions and collections, on FerretDB or on a double that has what it lacks, behind
//! a proxy that fails on demand.

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
    let reasons = [("nobody expects Some(\"x\")", "the double has no `returnKey`")];
    check("command_monitoring", Shape::Whole, 32, &reasons);
}

#[test]
fn sessions_are_used_as_specified() {
    let reasons = [(
        "has no assertSession",
        "whether a session is used again is seen in its next command only",
    )];
    check("sessions", Shape::Whole, 25, &reasons);
    check("sessions", Shape::Sharded, 21, &reasons);
}

#[test]
fn commands_of_users_are_sent_as_specified() {
    let reasons =
        [("has no cappedCollection", "the runner has no collections that operations make")];
    check("run_command/unified", Shape::Whole, 16, &reasons);
}

#[test]
fn the_version_of_the_interface_is_declared_as_specified() {
    let reasons = [("did not fail", "the double knows no versions, so it refuses nothing")];
    check("versioned-api", Shape::Whole, 35, &reasons);
}

#[test]
fn concerns_are_sent_as_specified() {
    let reasons = [("has no Collection::mapReduce", "`mapReduce` is deprecated, and not there")];
    check("read_write_concern/operation", Shape::Whole, 10, &reasons);
    let reasons = [
        ("rename did not fail", "a command of the user's own renames, whose reply says so"),
        ("the client has no dropDatabase", "what runs the tests drops databases by hand"),
        ("has no Collection::mapReduce", "`mapReduce` is deprecated, and not there"),
    ];
    check("read_write_concern/write-concern-errors", Shape::Whole, 25, &reasons);
}

/// The format has tests of its own, of those who run it.
#[test]
fn the_runner_of_tests_keeps_to_the_format() {
    let reasons = [
        (
            "has no assertSession",
            "whether a session is used again is seen in its next command only",
        ),
        ("stage name: '$collStats'", "the double has no statistics"),
        ("has no Cursor::iterateOnce", "cursors wait for a document, or their end"),
        ("createIndex with session", "indexes are not made in sessions"),
    ];
    check("unified-test-format/valid-pass", Shape::Whole, 66, &reasons);
}

#[test]
fn collections_are_managed_as_specified() {
    check("collection_management", Shape::Whole, 7, &[]);
}
