//! The specification's tests of load balancers, on FerretDB behind a proxy that leads connections to two services in
//! turn.

use crate::support::fault_proxy::Shape;
use crate::support::runner::run_suite;

#[test]
fn load_balancers_are_used_as_specified() {
    let reasons = [
        (
            "has no waitQueueTimeoutMS",
            "the time of the operation is over waiting as well; a test of our own reads the error",
        ),
        ("createChangeStream", "FerretDB has no change streams"),
        ("with batchSize", "lists of collections and indexes have the server's batches"),
        ("find did not fail", "FerretDB takes any `$or`"),
        ("runCommand did not fail", "the proxy serves clients that know no load balancer too"),
    ];
    let Some(tally) = run_suite("load_balancer", Shape::LoadBalanced) else { return };
    tally.check("load_balancer", &reasons);
    assert_eq!(tally.passed, 30);
}
