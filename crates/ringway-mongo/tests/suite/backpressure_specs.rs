//! The specification's tests of client backpressure, against a double behind a proxy that fails on demand.

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_suite;

#[test]
fn servers_with_too_much_to_do_are_met_as_specified() {
    let Some(tally) = run_suite("client-backpressure", Shape::Whole) else { return };
    let end = (
        "10 events are expected",
        "a cursor whose next batch is refused is ended when it is dropped, not at once",
    );
    tally.check("client backpressure", &[end]);
    assert_eq!(tally.passed, 102);
}
