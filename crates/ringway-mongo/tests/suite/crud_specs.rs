//! The specification's tests of CRUD, on FerretDB.

use crate::support::fault_proxy::Shape;
use crate::support::ferret::Ferret;
use crate::support::runner::{Runner, run_files};
use crate::support::{specs, suite_on_core};

/// Tests that pass; of pymongo 4.15.4, as many do.
const PASSED: usize = 151;

/// What says that a test fails because of something else than this client's work, and what that is.
const REASONS: [(&str, &str); 8] = [
    ("is not implemented yet", "FerretDB does not have it"),
    ("are not supported yet", "FerretDB does not update by stages"),
    ("is the wrong type", "FerretDB does not update by stages, and takes texts as comments only"),
    ("invalid key:", "FerretDB refuses such names of fields"),
    ("must specify a collection name or 1", "FerretDB aggregates collections only"),
    ("FerretDB has no", "FerretDB does not fail on demand"),
    ("upsertedIds: there is no", "FerretDB counts only what it upserts"),
    ("the client has no", "this client does not have the method: `count` is deprecated"),
];

#[test]
fn specification_passes_where_the_server_allows() {
    let Some(files) = specs::files("crud/unified") else { return };
    let Some(ferret) = Ferret::start() else { return };
    suite_on_core(async move {
        let tally = Runner::plain(&ferret.address, &ferret.place).run_all(files).await;
        tally.check("crud", &REASONS);
        assert_eq!(tally.passed, PASSED);
    });
}

#[test]
fn writes_of_a_whole_client_pass_where_the_server_allows() {
    let Some(mut files) = specs::files("crud/unified") else { return };
    files.retain(|(name, _)| name.starts_with("client-bulkWrite"));
    let Some(tally) = run_files(files, Shape::Newest) else { return };
    let reasons = [
        ("is not implemented yet", "FerretDB does not have it"),
        ("unknown field \"sort\"", "FerretDB does not choose what it updates"),
        ("were to fail, not", "FerretDB has no variables, and says so by another number"),
        ("is the wrong type", "FerretDB does not update by stages"),
    ];
    tally.check("client bulk write", &reasons);
    assert_eq!(tally.passed, 34);
}
