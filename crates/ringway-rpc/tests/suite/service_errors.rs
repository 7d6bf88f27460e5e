//! What the compiler says of a service that is not one: at the right place, and what to do instead.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
