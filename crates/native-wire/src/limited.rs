//! Texts, words, lists and objects that hold what their schema says: limits are part of their type.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer};

/// Text of `MIN` to `MAX` characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text<const MIN: usize, const MAX: usize>(String);

impl<const MIN: usize, const MAX: usize> Text<MIN, MAX> {
    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // A character has at least one byte: most texts need no counting.
        let length = if text.len() <= MAX { text.len() } else { text.chars().count() };
        if length > MAX || text.len() < MIN {
            let what = format!("has {length} characters, expected {MIN} to {MAX}");
            return Err(de::Error::custom(what));
        }
        Ok(Self(text))
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": MIN, "maxLength": MAX})
    }
}

/// A list of at most `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> List<T, MAX> {
    /// Returns the items.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(deserializer)?;
        if items.len() > MAX {
            let what = format!("has {} items, expected at most {MAX}", items.len());
            return Err(de::Error::custom(what));
        }
        Ok(Self(items))
    }
}

impl<T: JsonSchema, const MAX: usize> JsonSchema for List<T, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}To{MAX}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        json_schema!({"type": "array", "items": items, "maxItems": MAX})
    }
}

/// An object: a derived struct would take a list of its fields' values as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object<T>(pub T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Object<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// One word of a closed list: told as a wrong word, or as no text at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        T::deserialize(word.into_deserializer()).map(Word)
    }
}

impl<T: JsonSchema> JsonSchema for Word<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::{List, Object, Text};

    #[test]
    fn a_list_is_no_object() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Pair {
            a: u8,
            b: u8,
        }
        let read = |json: &str| serde_json::from_str::<Object<Pair>>(json).map(|Object(it)| it);
        assert_eq!(read(r#"{"b":2,"a":1}"#).unwrap(), Pair { a: 1, b: 2 });
        let error = read("[1,2]").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: sequence, expected an object"), "{error}");
    }

    #[test]
    fn limits_hold_and_are_told() {
        let fits = |json: &str| serde_json::from_str::<Text<1, 3>>(json).map(Text::into_string);
        assert_eq!(fits("\"äöü\"").unwrap(), "äöü");
        let empty = fits("\"\"").unwrap_err().to_string();
        assert!(empty.starts_with("has 0 characters, expected 1 to 3"), "{empty}");
        let long = fits("\"äöüß\"").unwrap_err().to_string();
        assert!(long.starts_with("has 4 characters, expected 1 to 3"), "{long}");
        let list = serde_json::from_str::<List<u8, 2>>("[1,2,3]").unwrap_err().to_string();
        assert!(list.starts_with("has 3 items, expected at most 2"), "{list}");
    }
}
