//! The specifications' tests of reads and writes that are tried again, on FerretDB behind a proxy that fails on demand.

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
fn reads_are_tried_again_as_specified() {
    let deprecated = "`count` and `mapReduce` are deprecated, and not there";
    check("retryable_reads/unified", Shape::Single, 277, &[("has no Collection::", deprecated)]);
    check("retryable_reads/unified", Shape::Whole, 328, &[("has no Collection::", deprecated)]);
}

#[test]
fn writes_are_tried_again_as_specified() {
    let missing = "FerretDB has no `$out` and `$merge`";
    check(
        "retryable_writes/unified",
        Shape::ReplicaSet,
        110,
        &[("is not implemented yet", missing)],
    );
    check("retryable_writes/unified", Shape::Whole, 119, &[]);
}
