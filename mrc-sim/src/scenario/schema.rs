//! The JSON Schema of scenario files, from the keys themselves: for editors, for checks without a run, and for the
//! documentation. Ranges that depend on other keys are checked when a scenario is built.

use std::sync::OnceLock;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, json_schema};
use serde_json::Value;

use super::{Scenario, WorkloadKind};

/// The JSON Schema (draft 2020-12) of a scenario file.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(plain));
    settings.into_generator().into_root_schema_for::<Scenario>().to_value()
}

/// Every kind of workload, and the keys that mean something to it beside `kind` and `name`.
pub fn keys_by_kind() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    WorkloadKind::ALL.into_iter().map(|kind| (kind.name(), kind.keys()))
}

/// A table of a scenario file, from its [`schema`].
pub struct SchemaTable<'a> {
    /// `topology`, `transport.mrc`; empty for the keys before all tables.
    pub path: String,
    /// Whether there may be several, `[[workload]]`.
    pub repeated: bool,
    /// Names of its keys and what the schema says of each; tables within it are not among them.
    pub keys: Vec<(&'a str, &'a Value)>,
}

/// All tables of a [`schema`], each before those in it.
pub fn tables(schema: &Value) -> Vec<SchemaTable<'_>> {
    let mut tables = Vec::new();
    collect(schema, schema, String::new(), false, &mut tables);
    tables
}

fn collect<'a>(schema: &'a Value, table: &'a Value, path: String, repeated: bool, into: &mut Vec<SchemaTable<'a>>) {
    let place = into.len();
    let mut keys = Vec::new();
    into.push(SchemaTable { path: path.clone(), repeated, keys: Vec::new() });
    let properties = table.get("properties").and_then(Value::as_object);
    for (key, value) in properties.into_iter().flatten() {
        let of_items = value.get("items").map(|items| resolve(schema, items));
        let (inner, several) = of_items.map_or((resolve(schema, value), false), |items| (items, true));
        if inner.get("properties").is_some() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            collect(schema, inner, path, several, into);
        } else {
            keys.push((key.as_str(), value));
        }
    }
    into[place].keys = keys;
}

/// What a `$ref` of a [`schema`] stands for.
pub fn resolve<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let name = value.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
    name.and_then(|name| schema.get("$defs")?.get(name)).unwrap_or(value)
}

/// Every table but the keys before all tables, by its path, and whether there may be several.
pub(super) fn shapes() -> &'static [(String, bool)] {
    static SHAPES: OnceLock<Vec<(String, bool)>> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let schema = schema();
        let named = tables(&schema).into_iter().filter(|table| !table.path.is_empty());
        named.map(|table| (table.path, table.repeated)).collect()
    })
}

/// The words that a key may have, such as `workload[0].kind` or `workload.0.kind`; none where it is no word.
pub(super) fn words(key: &str) -> Vec<String> {
    let schema = schema();
    let numbered = |part: &&str| !part.is_empty() && part.parse::<usize>().is_err();
    let parts: Vec<&str> = key.split(['.', '[', ']']).filter(numbered).collect();
    let Some((key, path)) = parts.split_last() else { return Vec::new() };
    let table = tables(&schema).into_iter().find(|table| table.path == path.join("."));
    let value = table.and_then(|table| table.keys.iter().find(|(name, _)| name == key).map(|(_, value)| *value));
    let choices = value.and_then(|value| resolve(&schema, value).get("oneOf")?.as_array());
    let word = |choice: &Value| choice.get("const").and_then(Value::as_str).map(str::to_owned);
    choices.into_iter().flatten().filter_map(word).collect()
}

/// Where in a file a key may stand: `in [topology]`.
pub(super) fn homes(key: &str) -> Vec<String> {
    let schema = schema();
    let homes = tables(&schema).into_iter().filter(|table| table.keys.iter().any(|(name, _)| *name == key));
    homes
        .map(|table| match (table.path.as_str(), table.repeated) {
            ("", _) => "before all tables".to_owned(),
            (path, false) => format!("in [{path}]"),
            (path, true) => format!("in [[{path}]]"),
        })
        .collect()
}

/// TOML has no null: a key that may be left out is left out. The defaults of a table are those of its keys.
fn plain(schema: &mut Schema) {
    let null = json_schema!({ "type": "null" });
    let Some(object) = schema.as_object_mut() else { return };
    if matches!(object.get("default"), Some(Value::Null | Value::Object(_) | Value::Array(_))) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice != null.as_value());
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_may_be_null_and_none_may_be_added() {
        let schema = schema();
        assert!(!schema.to_string().contains("null"), "{schema:#}");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["$defs"]["WorkloadKeys"]["additionalProperties"], false);
        assert_eq!(schema["$defs"]["WorkloadKeys"]["properties"]["load"]["type"], "number");
    }

    #[test]
    fn the_keys_of_every_kind_are_keys() {
        let schema = schema();
        let keys = schema["$defs"]["WorkloadKeys"]["properties"].as_object().unwrap();
        for (kind, names) in keys_by_kind() {
            assert!(names.iter().all(|name| keys.contains_key(*name)), "{kind}: {names:?}");
        }
        let used = |key: &&String| keys_by_kind().any(|(_, names)| names.contains(&key.as_str()));
        let unused: Vec<_> = keys.keys().filter(|key| !used(key)).collect();
        assert_eq!(unused, ["kind", "name", "job"]);
    }

    #[test]
    fn keys_have_their_tables() {
        assert_eq!(homes("preset"), ["before all tables"]);
        assert_eq!(homes("hopper_alpha_percent"), ["in [transport.mrc]"]);
        assert_eq!(homes("gbps"), ["in [[topology.edge]]", "in [[link]]", "in [[fault]]"]);
        assert!(homes("nothing").is_empty());
    }
}
