//! The agent for foreign endpoints (`conform-agent/agent.c`) has a table of knobs with their defaults: it is ours.

use std::path::Path;

use mrc_conform::KNOBS;

#[test]
fn the_agent_knows_every_knob_and_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conform-agent/agent.c");
    let text = std::fs::read_to_string(&path).expect("the agent is there");
    let table = text.split("} knobs[] = {").nth(1).and_then(|rest| rest.split("};").next()).expect("a table");
    let mut found: Vec<(String, i64)> = table
        .split("{\"")
        .skip(1)
        .map(|entry| {
            let mut parts = entry.split(',').map(|part| part.trim().trim_end_matches('"'));
            let (name, value) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            let hex = value.strip_prefix("0x").map(|digits| i64::from_str_radix(digits, 16));
            (name.to_string(), hex.unwrap_or_else(|| value.parse()).expect("a number"))
        })
        .collect();
    let mut wanted: Vec<(String, i64)> = KNOBS.iter().map(|knob| (knob.name.to_string(), knob.default)).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}
