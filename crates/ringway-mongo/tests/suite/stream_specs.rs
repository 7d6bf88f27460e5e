//! The specification's tests of change streams, against a double that has them, behind a proxy that fails on demand.

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_suite;

/// What says why a test does not pass, and the reason.
type Reasons = [(&'static str, &'static str)];

fn check(shape: Shape, passed: usize, reasons: &Reasons) {
    let Some(tally) = run_suite("change_streams/unified", shape) else { return };
    tally.check("change streams", reasons);
    assert_eq!(tally.passed, passed);
}

const PATHS: (&str, &str) =
    ("there is no disambiguatedPaths", "the double does not tell of ambiguous paths");

#[test]
fn changes_of_a_replica_set_are_followed_as_specified() {
    check(Shape::Whole, 64, &[PATHS]);
}

#[test]
fn changes_of_a_sharded_cluster_are_followed_as_specified() {
    let shards = ("no such command: 'shardCollection'", "the double does not shard collections");
    check(Shape::Sharded, 41, &[PATHS, shards]);
}
