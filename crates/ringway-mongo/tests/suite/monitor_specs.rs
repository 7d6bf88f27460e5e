//! The specification's tests of monitors in the unified format, on FerretDB behind a proxy that tells how it is by
//! itself and fails on demand.

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_suite;

const FOLDER: &str = "discovery_and_monitoring/unified";

fn check(shape: Shape, passed: usize, reasons: &[(&'static str, &'static str)]) {
    let Some(tally) = run_suite(FOLDER, shape) else { return };
    tally.check(FOLDER, reasons);
    assert_eq!(tally.passed, passed);
}

const LOGS: (&str, &str) =
    ("logs in words of its own", "the log has the same, but not in the specification's words");
const SOCKET_TIMEOUT: (&str, &str) =
    ("has no socketTimeoutMS", "it is the time of operations, which a slow FerretDB exceeds too");

const MARGIN: (&str, &str) = ("its margin is 250 ms", "a loaded machine is late by as much");

#[test]
fn a_single_server_is_monitored_as_specified() {
    check(Shape::Telling, 17, &[LOGS, SOCKET_TIMEOUT, MARGIN]);
}

#[test]
fn a_replica_set_is_monitored_as_specified() {
    let reasons = [
        LOGS,
        SOCKET_TIMEOUT,
        MARGIN,
        ("was not told", "the replica set has one member, whose view changes less often"),
        ("6 events are expected", "operations that have begun end by their own deadline"),
        ("$where", "FerretDB has no `$where`"),
        (
            "recordTopologyDescription",
            "FerretDB does not step down; a test of our own has elections",
        ),
    ];
    check(Shape::TellingSet, 13, &reasons);
}
