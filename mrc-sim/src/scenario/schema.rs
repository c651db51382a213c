//! The JSON Schema of scenario files, from the keys themselves: for editors, for checks without a run, and for the
//! documentation. Ranges that depend on other keys are checked when a scenario is built.

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
}
