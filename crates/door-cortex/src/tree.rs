//! JSON of a body, with a limit to how many values it has: a value in memory takes many times the
//! bytes that it has on the wire.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Values of one body: schemas and arguments of tools have some thousands at most.
const VALUES_MAX: usize = 100_000;

/// A JSON value of at most [`VALUES_MAX`] values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree(pub(crate) Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(VALUES_MAX);
        Node { left: &left }.deserialize(deserializer).map(Tree)
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            let what = format!("it has more than {VALUES_MAX} values");
            return Err(de::Error::custom(what));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Tree, VALUES_MAX};

    #[test]
    fn a_value_is_read_as_it_stands() {
        let value = json!({"b": [1, -2, 2.5, "ä\n", null, true], "a": {"c": {}}, "n": 1e300});
        let read: Tree = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(read.0, value);
        assert_eq!(read.0.to_string(), value.to_string(), "the order of keys is kept");
    }

    #[test]
    fn a_body_of_too_many_values_is_refused() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        let read = |text: &str| serde_json::from_str::<Tree>(text);
        assert!(matches!(read(&list(VALUES_MAX - 1)), Ok(Tree(Value::Array(_)))));
        let error = read(&list(VALUES_MAX)).unwrap_err().to_string();
        assert!(error.contains("more than 100000 values"), "{error}");
        assert!(read(&"[".repeat(1_000)).is_err());
    }
}
