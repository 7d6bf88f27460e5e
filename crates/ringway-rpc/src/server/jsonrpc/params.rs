//! How the parameters of a call become the one message that its method takes.
//!
//! | the message is | by position | by name | none |
//! |---|---|---|---|
//! | an object | its members in order, or the object alone | the object | `{}` |
//! | an array | its elements, or the array alone | by the argument's name | `[]` |
//! | a number, string or boolean | it alone | by the argument's name | null |
//! | anything | it alone, or the array | the object | null |
//! | nothing | `[]` | `{}` | null |

use std::borrow::Cow;

use ringway_wire::jsonrpc::{Params, elements, members, only_element};

use crate::call::json_shape::Shape;

/// The message as JSON; `None` if the parameters are not those of the method.
#[inline]
pub(super) fn message<'a>(
    shape: Shape,
    parameters: &[&str],
    given: Params<'a>,
) -> Option<Cow<'a, str>> {
    let message = match (shape, given) {
        (Shape::Fields(_) | Shape::Any, Params::Named(object)) => object,
        (Shape::Scalar, Params::Positional(array)) => only_element(array)?,
        (Shape::Fields(_), Params::Positional(array)) => alone(array, b'{').unwrap_or(array),
        (Shape::List { of_lists: true }, Params::Positional(array)) => array,
        (Shape::List { .. }, Params::Positional(array)) => alone(array, b'[').unwrap_or(array),
        (Shape::Any, Params::Positional(array)) => only_element(array).unwrap_or(array),
        (Shape::List { .. } | Shape::Scalar, Params::Named(object)) => {
            argument(object, parameters)?
        }
        (Shape::Fields(_), Params::Absent) => "{}",
        (Shape::List { .. }, Params::Absent) => "[]",
        (Shape::Scalar | Shape::Any | Shape::Nothing, Params::Absent) => "null",
        (Shape::Nothing, Params::Positional(array)) => {
            elements(array).next().is_none().then_some("null")?
        }
        (Shape::Nothing, Params::Named(object)) => {
            members(object).next().is_none().then_some("null")?
        }
    };
    Some(Cow::Borrowed(message))
}

/// The message of a method whose request is an object with these members.
pub(super) fn by_fields<'a>(fields: &[String], given: Params<'a>) -> Option<Cow<'a, str>> {
    let array = match given {
        Params::Absent => return Some(Cow::Borrowed("{}")),
        Params::Named(object) => return Some(Cow::Borrowed(object)),
        Params::Positional(array) => array,
    };
    let one = only_element(array);
    // What is not described as an object with members is a value that stands alone.
    if let Some(one) = one.filter(|one| fields.is_empty() || one.starts_with('{')) {
        return Some(Cow::Borrowed(one));
    }
    let mut object = String::from("{");
    let mut names = fields.iter();
    for element in elements(array) {
        let separator = if object.len() > 1 { "," } else { "" };
        object += &format!("{separator}\"{}\":{element}", names.next()?);
    }
    object.push('}');
    Some(Cow::Owned(object))
}

/// The one element of an array, if it begins so.
#[inline]
fn alone(array: &str, first: u8) -> Option<&str> {
    only_element(array).filter(|element| element.as_bytes().first() == Some(&first))
}

/// The one member of an object, which has the argument's name.
fn argument<'a>(object: &'a str, parameters: &[&str]) -> Option<&'a str> {
    let mut all = members(object);
    let (name, value) = all.next()?;
    (parameters == [&*name] && all.next().is_none()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Shape = Shape::List { of_lists: false };
    const LISTS: Shape = Shape::List { of_lists: true };
    const FIELDS: Shape = Shape::Fields(&["a", "b"]);

    #[track_caller]
    fn check(shape: Shape, cases: &[(&str, Option<&str>)]) {
        for (json, expected) in cases {
            let given = match json.as_bytes().first() {
                None => Params::Absent,
                Some(b'[') => Params::Positional(json),
                _ => Params::Named(json),
            };
            let found = message(shape, &["arg"], given);
            assert_eq!(found.as_deref(), *expected, "{shape:?} of {json}");
        }
    }

    #[test]
    fn parameters_become_a_message() {
        check(
            FIELDS,
            &[
                ("", Some("{}")),
                ("[1,2]", Some("[1,2]")),
                ("[1]", Some("[1]")),
                (r#"[{"a":1}]"#, Some(r#"{"a":1}"#)),
                (r#"[{"a":1},2]"#, Some(r#"[{"a":1},2]"#)),
                (r#"{"b":1}"#, Some(r#"{"b":1}"#)),
            ],
        );
        check(
            LIST,
            &[
                ("", Some("[]")),
                ("[]", Some("[]")),
                ("[1,2]", Some("[1,2]")),
                ("[1]", Some("[1]")),
                ("[[1,2]]", Some("[1,2]")),
                (r#"{"arg":[1]}"#, Some("[1]")),
                (r#"{"a":[1]}"#, None),
            ],
        );
        check(LISTS, &[("[[1],[2]]", Some("[[1],[2]]")), ("[[1]]", Some("[[1]]"))]);
        check(
            Shape::Scalar,
            &[
                ("", Some("null")),
                ("[7]", Some("7")),
                ("[]", None),
                ("[7,8]", None),
                (r#"{"arg":7}"#, Some("7")),
                (r#"{"arg":7,"b":8}"#, None),
                ("{}", None),
            ],
        );
        check(
            Shape::Any,
            &[("", Some("null")), ("[7]", Some("7")), ("[7,8]", Some("[7,8]")), ("{}", Some("{}"))],
        );
        check(
            Shape::Nothing,
            &[("", Some("null")), ("[]", Some("null")), ("{}", Some("null")), ("[0]", None)],
        );
    }

    #[test]
    fn described_messages_have_members_in_order() {
        let fields = ["a".to_owned(), "b".to_owned()];
        for (given, expected) in [
            (Params::Absent, Some("{}")),
            (Params::Named(r#"{"b":1}"#), Some(r#"{"b":1}"#)),
            (Params::Positional(r#"[{"b":1}]"#), Some(r#"{"b":1}"#)),
            (Params::Positional("[1]"), Some(r#"{"a":1}"#)),
            (Params::Positional("[1,[2]]"), Some(r#"{"a":1,"b":[2]}"#)),
            (Params::Positional("[1,2,3]"), None),
        ] {
            assert_eq!(by_fields(&fields, given).as_deref(), expected, "{given:?}");
        }
        assert_eq!(by_fields(&[], Params::Positional("[7]")).as_deref(), Some("7"));
    }
}
