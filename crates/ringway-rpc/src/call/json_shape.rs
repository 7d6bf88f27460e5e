//! The shape of a type in JSON, found by recording what its `Deserialize` asks for.

use std::fmt::{self, Display};

use serde::de::value::Error as Refused;
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// The shape of a message in JSON, as far as it decides how parameters become a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Only null.
    Nothing,
    /// An object with these members, or their values in this order.
    Fields(&'static [&'static str]),
    /// An array.
    List {
        /// Whether its elements are arrays as well.
        of_lists: bool,
    },
    /// A number, a string or a boolean.
    Scalar,
    /// Any value: a map, an enum, or a type that inspects its input.
    Any,
}

impl Shape {
    pub(crate) fn of<T: DeserializeOwned>() -> Self {
        let mut found = Self::Any;
        let _refused_after_it_was_found = T::deserialize(Probe { found: &mut found, depth: 0 });
        found
    }
}

/// A deserializer that records what a type asks for and returns no values.
struct Probe<'a> {
    found: &'a mut Shape,
    depth: u32,
}

/// The bound on nested types to inspect: a type may contain itself.
const DEPTH_MAX: u32 = 8;

impl Probe<'_> {
    fn is<T>(self, shape: Shape) -> Result<T, Refused> {
        *self.found = shape;
        Err(refused())
    }

    /// Takes the shape of the inner type.
    fn inside<R>(self, look: impl FnOnce(Self) -> Result<R, Refused>) -> Result<R, Refused> {
        match self.depth < DEPTH_MAX {
            true => look(Self { depth: self.depth + 1, found: self.found }),
            false => self.is(Shape::Any),
        }
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        *self.found = Shape::List { of_lists: false };
        if self.depth < DEPTH_MAX {
            let mut element = Shape::Any;
            let _refused =
                visitor.visit_seq(Element { found: &mut element, depth: self.depth + 1 });
            let of_lists = matches!(element, Shape::List { .. });
            *self.found = Shape::List { of_lists };
        }
        Err(refused())
    }
}

fn refused() -> Refused {
    de::Error::custom("nothing is read")
}

/// Defines the functions of scalar types.
macro_rules! scalars {
    ($($function:ident)*) => {
        $(fn $function<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
            self.is(Shape::Scalar)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_identifier
    }

    forward_to_deserialize_any! { map enum ignored_any }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        self.is(Shape::Any)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.inside(|probe| visitor.visit_some(probe))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        self.is(Shape::Nothing)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: V,
    ) -> Result<V::Value, Refused> {
        self.is(Shape::Nothing)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.inside(|probe| visitor.visit_newtype_struct(probe))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.list(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Refused> {
        self.is(Shape::List { of_lists: true }) // its elements may have different types
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Refused> {
        self.is(Shape::Fields(fields))
    }
}

/// The first element of a list, which decides its shape.
struct Element<'a> {
    found: &'a mut Shape,
    depth: u32,
}

impl<'de> SeqAccess<'de> for Element<'_> {
    type Error = Refused;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        seed.deserialize(Probe { found: &mut *self.found, depth: self.depth }).map(Some)
    }
}

/// Deserializes a missing value: an optional one is `None`.
pub(crate) fn missing<'de, T: Deserialize<'de>, E: de::Error>(name: &'static str) -> Result<T, E> {
    T::deserialize(de::value::UnitDeserializer::<MissingError>::new())
        .map_err(|MissingError| E::missing_field(name))
}

/// An error without a text: the caller reports another one.
#[derive(Debug)]
struct MissingError;

impl Display for MissingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("missing")
    }
}

impl std::error::Error for MissingError {}

impl de::Error for MissingError {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Named {
        _a: u8,
        _b: Option<Box<Named>>,
    }

    #[derive(serde::Deserialize)]
    struct Endless(#[allow(dead_code)] Option<Box<Endless>>);

    #[derive(serde::Deserialize)]
    enum Choice {
        _A(#[allow(dead_code)] u8),
    }

    #[test]
    fn types_have_the_expected_shapes() {
        let list = |of_lists| Shape::List { of_lists };
        for (found, expected) in [
            (Shape::of::<()>(), Shape::Nothing),
            (Shape::of::<u64>(), Shape::Scalar),
            (Shape::of::<Option<String>>(), Shape::Scalar),
            (Shape::of::<Named>(), Shape::Fields(&["_a", "_b"])),
            (Shape::of::<Option<Box<Named>>>(), Shape::Fields(&["_a", "_b"])),
            (Shape::of::<Vec<i64>>(), list(false)),
            (Shape::of::<Vec<Vec<i64>>>(), list(true)),
            (Shape::of::<(u8, u8)>(), list(true)),
            (Shape::of::<BTreeMap<String, u8>>(), Shape::Any),
            (Shape::of::<serde_json::Value>(), Shape::Any),
            (Shape::of::<Choice>(), Shape::Any),
            (Shape::of::<Endless>(), Shape::Any),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn optional_values_may_be_missing() {
        let none: Result<Option<u8>, Refused> = missing("a");
        assert_eq!(none, Ok(None));
        let needed: Result<u8, Refused> = missing("a");
        assert_eq!(needed.expect_err("needed").to_string(), "missing field `a`");
    }
}
