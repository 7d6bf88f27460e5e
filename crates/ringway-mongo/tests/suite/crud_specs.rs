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

/// The same for the double, which knows more options and fewer operators.
const REASONS_OF_DOUBLE: [(&str, &str); 25] = [
    ("has no Collection::count", "`count` is deprecated, and not there"),
    ("operator: $expr", "the double has no expressions"),
    ("were to fail, not", "the same, so what is wrong in one has another number"),
    ("setField", "the same"),
    ("Unknown modifier: ", "the double updates by `$set` of constants"),
    ("array filters are not there", "the double has none"),
    ("aggregate-collation.json", "the double has no collations"),
    ("bulkWrite-collation.json", "the same"),
    ("deleteMany-collation.json", "the same"),
    ("deleteOne-collation.json", "the same"),
    ("distinct-collation.json", "the same"),
    ("find-collation.json", "the same"),
    ("findOneAndDelete-collation.json", "the same"),
    ("findOneAndReplace-collation.json", "the same"),
    ("findOneAndUpdate-collation.json", "the same"),
    ("replaceOne-collation.json", "the same"),
    ("updateMany-collation.json", "the same"),
    ("updateOne-collation.json", "the same"),
    ("there is no $readPreference", "a database has no preference of its own"),
    ("has no aggregate with allowDiskUse", "pipelines on a database have no options"),
    (
        "aggregate-out-readConcern.json",
        "the double has one member, whose every read is linearizable",
    ),
    ("findOneAndUpdate-errorResponse.json", "the runner makes neither unique indexes nor rules"),
    (
        "aggregate-merge-errorResponse.json",
        "the double merges into what it has, and knows no duplicates",
    ),
    ("insertOne-dots_and_dollars.json", "the double takes any `_id`"),
    ("estimatedDocumentCount.json", "the double has no views"),
];

#[test]
fn specification_passes_on_a_server_that_knows_all_options() {
    let Some(files) = specs::files("crud/unified") else { return };
    let Some(tally) = run_files(files, Shape::Whole) else { return };
    tally.check("crud on a double", &REASONS_OF_DOUBLE);
    assert_eq!(tally.passed, 267);
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
