//! Several values as one message: an object with a member for each, or their array.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::call::json_shape::missing;

/// The values of a method that takes several, which are one message: `{"minuend":42,"subtrahend":23}`. It is
/// read from an array as well, with the values in their order.
///
/// The [`service`](crate::service) attribute writes it for `async fn subtract(&self, minuend: i64, subtrahend: i64)`.
pub struct Arguments<N, T> {
    values: T,
    names: PhantomData<fn() -> N>,
}

/// What several values are called. The [`service`](crate::service) attribute writes it.
pub trait ArgumentNames {
    /// In their order.
    const NAMES: &'static [&'static str];
}

impl<N, T> Arguments<N, T> {
    /// Puts the values together.
    pub fn new(values: T) -> Self {
        Self { values, names: PhantomData }
    }

    /// Takes them apart.
    pub fn into_values(self) -> T {
        self.values
    }
}

impl<N: ArgumentNames, T: fmt::Debug> fmt::Debug for Arguments<N, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").field("names", &N::NAMES).field("values", &self.values).finish()
    }
}

/// Implements serde's traits for tuples of each length.
macro_rules! tuples {
    ($($len:literal: $($value:ident $place:tt),*;)*) => {
        $(
            impl<N: ArgumentNames, $($value: Serialize),*> Serialize for Arguments<N, ($($value,)*)> {
                fn serialize<Form: Serializer>(&self, serializer: Form) -> Result<Form::Ok, Form::Error> {
                    let mut object = serializer.serialize_struct("Arguments", $len)?;
                    $(object.serialize_field(N::NAMES[$place], &self.values.$place)?;)*
                    object.end()
                }
            }

            impl<'de, N: ArgumentNames, $($value: Deserialize<'de>),*> Deserialize<'de>
                for Arguments<N, ($($value,)*)>
            {
                fn deserialize<Form: Deserializer<'de>>(deserializer: Form) -> Result<Self, Form::Error> {
                    let reader = Reader::<N, ($($value,)*)>(PhantomData);
                    deserializer.deserialize_struct("Arguments", N::NAMES, reader).map(Self::new)
                }
            }

            impl<'de, N: ArgumentNames, $($value: Deserialize<'de>),*> Visitor<'de>
                for Reader<N, ($($value,)*)>
            {
                type Value = ($($value,)*);

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, "{} values: {}", $len, N::NAMES.join(", "))
                }

                fn visit_seq<Source: SeqAccess<'de>>(self, mut array: Source) -> Result<Self::Value, Source::Error> {
                    let values = ($(
                        match array.next_element::<$value>()? {
                            Some(value) => value,
                            None => missing(N::NAMES[$place])?,
                        },
                    )*);
                    match array.next_element::<IgnoredAny>()? {
                        None => Ok(values),
                        Some(_) => Err(Source::Error::invalid_length($len + 1, &self)),
                    }
                }

                #[allow(non_snake_case)]
                fn visit_map<Source: MapAccess<'de>>(self, mut object: Source) -> Result<Self::Value, Source::Error> {
                    $(let mut $value = None;)*
                    while let Some(Name(place, _)) = object.next_key::<Name<N>>()? {
                        match place {
                            $($place => $value = Some(object.next_value()?),)*
                            _ => _ = object.next_value::<IgnoredAny>()?,
                        }
                    }
                    Ok(($(
                        match $value {
                            Some(value) => value,
                            None => missing(N::NAMES[$place])?,
                        },
                    )*))
                }
            }
        )*
    };
}

tuples! {
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

struct Reader<N, T>(PhantomData<fn() -> (N, T)>);

/// The place of a member's name among the values; behind the last if it is none of them.
struct Name<N>(usize, PhantomData<fn() -> N>);

impl<'de, N: ArgumentNames> Deserialize<'de> for Name<N> {
    fn deserialize<Form: Deserializer<'de>>(deserializer: Form) -> Result<Self, Form::Error> {
        deserializer.deserialize_identifier(NameReader(PhantomData))
    }
}

struct NameReader<N>(PhantomData<fn() -> N>);

impl<N: ArgumentNames> Visitor<'_> for NameReader<N> {
    type Value = Name<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a value")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name<N>, E> {
        let place = N::NAMES.iter().position(|known| *known == name);
        Ok(Name(place.unwrap_or(N::NAMES.len()), PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::json_shape::Shape;

    struct Names;

    impl ArgumentNames for Names {
        const NAMES: &'static [&'static str] = &["a", "b"];
    }

    type Two = Arguments<Names, (i64, Option<String>)>;

    fn read(json: &str) -> Result<(i64, Option<String>), String> {
        let read = serde_json::from_str::<Two>(json).map(Arguments::into_values);
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_an_object_and_read_from_an_array_as_well() {
        let written = serde_json::to_string(&Two::new((1, Some("x".into())))).expect("JSON");
        assert_eq!(written, r#"{"a":1,"b":"x"}"#);
        let both = Ok((1, Some("x".to_owned())));
        for json in [&*written, r#"{"b":"x","c":[],"a":1}"#, r#"[1,"x"]"#] {
            assert_eq!(read(json), both, "{json}");
        }
        for json in ["[1]", r#"{"a":1}"#, r#"{"a":1,"b":null}"#] {
            assert_eq!(read(json), Ok((1, None)), "{json}");
        }
        assert_eq!(Shape::of::<Two>(), Shape::Fields(&["a", "b"]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (json, expected) in [
            ("{}", "missing field `a`"),
            ("[]", "missing field `a`"),
            (r#"["x"]"#, "invalid type: string"),
            ("[1,null,3]", "invalid length 3, expected 2 values: a, b"),
            ("7", "expected 2 values: a, b"),
        ] {
            let error = read(json).expect_err("wrong");
            assert!(error.contains(expected), "{json}: {error}");
        }
    }
}
