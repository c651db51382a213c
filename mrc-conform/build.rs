//! Puts the scripts of `tests/conformance` and the register of `spec` into the library, so that the `mrc` program has them
//! wherever it runs. `data` links to both: the packed crate has copies in their place.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    // Cargo runs this in the folder of the crate. Names from there on are right in whichever checkout it is built.
    write("scripts.rs", &scripts());
    write("register.rs", &register());
}

fn write(name: &str, code: &str) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join(name);
    std::fs::write(out, code).expect("OUT_DIR is writable");
}

fn scripts() -> String {
    let root = Path::new("data/conformance");
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let path = format!("/{}", file.display());
        let _ = writeln!(code, "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),");
    }
    code.push_str("]\n");
    code
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in std::fs::read_dir(dir).expect("the scripts are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "mrc") {
            into.push(path);
        }
    }
}

/// The requirements and decisions as two constant tables. `spec check` judges the files; this only copies them.
fn register() -> String {
    let mut code = String::from("const REQUIREMENTS: &[Requirement] = &[\n");
    let places = records("data/ocp.toml", "place");
    for chapter in ["congestion", "paths", "selectors", "transport", "wire"] {
        for record in records(&format!("data/requirements/{chapter}.toml"), "requirement") {
            let text = |key: &str| record[key].as_str().unwrap_or_default();
            let certainty = match text("certainty") {
                "2+" => "Agreed",
                "1" => "Single",
                "D" => "Decision",
                "C" => "Conflict",
                other => panic!("{chapter}: certainty {other}"),
            };
            let _ = writeln!(
                code,
                "Requirement {{ id: {:?}, source: {:?}, ocp: {:?}, level: {:?}, certainty: Certainty::{certainty}, summary: {:?} }},",
                text("id"),
                text("source"),
                places_of(&places, text("id")),
                text("level"),
                text("summary"),
            );
        }
    }
    code.push_str("];\nconst DECISIONS: &[Decision] = &[\n");
    for record in records("data/decisions.toml", "decision") {
        let text = |key: &str| record[key].as_str().unwrap_or_default();
        let requirements: Vec<&str> =
            record["requirements"].as_array().into_iter().flatten().filter_map(toml::Value::as_str).collect();
        let _ = writeln!(
            code,
            "Decision {{ id: {:?}, question: {:?}, decision: {:?}, requirements: &{requirements:?} }},",
            text("id"),
            text("question"),
            text("decision"),
        );
    }
    code.push_str("];\n");
    code
}

/// Where the OCP specification says it, as far as public material tells.
fn places_of(places: &[toml::Value], id: &str) -> String {
    let holds = |pattern: &str| pattern == id || pattern.strip_suffix('*').is_some_and(|group| id.starts_with(group));
    let named = |place: &&toml::Value| {
        place["requirements"].as_array().into_iter().flatten().filter_map(toml::Value::as_str).any(holds)
    };
    let texts = places.iter().filter(named).filter_map(|place| place["place"].as_str());
    texts.collect::<Vec<_>>().join("; ")
}

fn records(path: &str, key: &str) -> Vec<toml::Value> {
    println!("cargo::rerun-if-changed={path}");
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let table: toml::Table = text.parse().unwrap_or_else(|why| panic!("{path}: {why}"));
    table[key].as_array().cloned().unwrap_or_default()
}
