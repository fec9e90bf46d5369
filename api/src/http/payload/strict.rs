//! Strict JSON: exactly one value in UTF-8, without duplicate members, U+0000, lone surrogates or numbers out of range.
//!
//! `serde_json` refuses what is no JSON; what it lets pass (duplicates: the last wins; U+0000) is refused here, with its place.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, error::Category};

use super::pointer::{self, Step};
use crate::http::problem::FieldError;

/// More faults than these help nobody, and a hostile body could have thousands.
pub(super) const MAX_FAULTS: usize = 32;

/// Reads one strict JSON value.
///
/// # Errors
/// The faults that were found, never none and never more than 32. A fault of the syntax ends the reading.
pub fn parse_strict(bytes: &[u8]) -> Result<Value, Vec<FieldError>> {
    match read(bytes) {
        (Some(value), faults) if faults.is_empty() => Ok(value),
        (_, faults) => Err(faults),
    }
}

/// The value, unless a fault of the syntax ended the reading, and every fault that was found: what can be read is still to be validated.
pub(super) fn read(bytes: &[u8]) -> (Option<Value>, Vec<FieldError>) {
    let whole = |detail: &str| (None, vec![FieldError::new("", detail)]);
    let Ok(text) = std::str::from_utf8(bytes) else { return whole("the body is not UTF-8") };
    if text.trim_ascii().is_empty() {
        return whole("the body is empty; a JSON object is expected");
    }
    let mut reader = Reader::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let result = Seed(&mut reader).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    match result {
        Ok(value) => (Some(value), reader.faults),
        Err(error) => {
            let fault = reader.syntax_fault(&error);
            // The fault that ended the reading is always told, whatever came before.
            reader.faults.truncate(MAX_FAULTS - 1);
            reader.faults.push(fault);
            (None, reader.faults)
        }
    }
}

/// Where the reading stands, and what it found so far.
#[derive(Default)]
struct Reader {
    /// Left standing by an error, so that it names the place.
    path: Vec<Step>,
    faults: Vec<FieldError>,
}

impl Reader {
    fn fault(&mut self, detail: &str) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(FieldError::new(pointer::along(&self.path), detail));
        }
    }

    /// In our own words: the parser's texts are its own affair and can change.
    fn syntax_fault(&self, error: &serde_json::Error) -> FieldError {
        let text = error.to_string();
        let here = |detail: &str| FieldError::new(pointer::along(&self.path), detail);
        if text.starts_with("number out of range") {
            here("the number is out of range")
        } else if text.starts_with("lone leading surrogate") || text.starts_with("unexpected end of hex escape") {
            here("the text has a lone surrogate, which is no Unicode character")
        } else if text.starts_with("recursion limit exceeded") {
            here("the JSON is nested too deeply")
        } else {
            let what = match error.classify() {
                Category::Eof => "the JSON ends too early",
                Category::Syntax | Category::Data | Category::Io if text.starts_with("trailing characters") => {
                    "something follows the JSON value"
                }
                Category::Syntax | Category::Data | Category::Io => "not valid JSON",
            };
            FieldError::new("", format!("line {}, column {}: {what}", error.line(), error.column()))
        }
    }
}

struct Seed<'r>(&'r mut Reader);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
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
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        if value.contains('\0') {
            self.0.fault("the text has the character U+0000");
        }
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        loop {
            self.0.path.push(Step::Element(array.len()));
            let element = elements.next_element_seed(Seed(self.0))?;
            self.0.path.pop();
            match element {
                Some(element) => array.push(element),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name.contains('\0') {
                self.0.fault("a member's name has the character U+0000");
            }
            self.0.path.push(Step::Member(name.clone()));
            if object.contains_key(&name) {
                self.0.fault("the member is given more than once");
            }
            let value = members.next_value_seed(Seed(self.0))?;
            self.0.path.pop();
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn faults(text: impl AsRef<[u8]>) -> Vec<(String, String)> {
        parse_strict(text.as_ref()).unwrap_err().into_iter().map(|f| (f.pointer, f.detail)).collect()
    }

    #[test]
    fn each_fault_has_its_place_and_our_words() {
        for (text, pointer, detail) in [
            (&b""[..], "", "the body is empty; a JSON object is expected"),
            (b" \n", "", "the body is empty; a JSON object is expected"),
            (b"{\"a\":\"\xff\"}", "", "the body is not UTF-8"),
            (b"{", "", "line 1, column 1: the JSON ends too early"),
            (b"{\"a\": ", "", "line 1, column 6: the JSON ends too early"),
            (b"{}x", "", "line 1, column 3: something follows the JSON value"),
            (b"{} {}", "", "line 1, column 4: something follows the JSON value"),
            (b"{'a':1}", "", "line 1, column 2: not valid JSON"),
            (b"[1 2]", "", "line 1, column 4: not valid JSON"),
            (b"{\"a\":01}", "", "line 1, column 7: not valid JSON"),
            (b"\xef\xbb\xbf{}", "", "line 1, column 1: not valid JSON"),
            (b"{\"a\":[0,1e400]}", "/a/1", "the number is out of range"),
            (br#"{"a":"\ud800"}"#, "/a", "the text has a lone surrogate, which is no Unicode character"),
            (br#"{"a":"\udc00\ud800"}"#, "/a", "the text has a lone surrogate, which is no Unicode character"),
            (br#"{"a":"\ud800\u0041"}"#, "/a", "the text has a lone surrogate, which is no Unicode character"),
            (br#"{"a":{"\udead":1}}"#, "/a", "the text has a lone surrogate, which is no Unicode character"),
            (br#"{"a":"x\u0000"}"#, "/a", "the text has the character U+0000"),
            (br#"{"\u0000":1}"#, "", "a member's name has the character U+0000"),
            (br#"{"a/b":1,"a\u002fb":1}"#, "/a~1b", "the member is given more than once"),
            (br#"{"a":{"b":1,"b":1}}"#, "/a/b", "the member is given more than once"),
        ] {
            assert_eq!(faults(text), [(pointer.to_owned(), detail.to_owned())], "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn faults_are_gathered_and_bounded() {
        let found = faults(r#"{"a":1,"a":"\u0000","b":[{"c":1,"c":2}]"#);
        let pointers: Vec<&str> = found.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(pointers, ["/a", "/a", "/b/0/c", ""]);
        let many = format!("{{{}", "\"a\":1,".repeat(100));
        assert_eq!(faults(many).len(), MAX_FAULTS);
        let deep = faults("[".repeat(1000));
        assert_eq!((deep.len(), deep[0].1.as_str()), (1, "the JSON is nested too deeply"));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            "[^\0]*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[^\0]*", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_json_reads_as_written(value in json()) {
            prop_assert_eq!(parse_strict(value.to_string().as_bytes()), Ok(value));
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_strict(&bytes);
        }
    }
}
