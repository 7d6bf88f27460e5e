//! The specification's tests of CRUD, on FerretDB.

use crate::support::ferret::Ferret;
use crate::support::runner::Runner;
use crate::support::{specs, suite_on_core};

/// Tests that pass; of pymongo 4.15.4, 151 do, the same and three of a method that this client does not have.
const PASSED: usize = 148;

/// What says that a test fails because of something else than this client's work, and what that is.
const REASONS: [(&str, &str); 8] = [
    ("is not implemented yet", "FerretDB does not have it"),
    ("are not supported yet", "FerretDB does not update by stages"),
    ("is the wrong type", "FerretDB does not update by stages, and takes texts as comments only"),
    ("invalid key:", "FerretDB refuses such names of fields"),
    ("must specify a collection name or 1", "FerretDB aggregates collections only"),
    ("FerretDB has no", "FerretDB does not fail on demand"),
    ("upsertedIds: there is no", "FerretDB counts only what it upserts"),
    (
        "the client has no",
        "this client does not have the method: `count` is deprecated, some are of MongoDB 8.0",
    ),
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
