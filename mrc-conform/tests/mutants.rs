//! Scripts with typing errors: whatever they say, parser and runner refuse or play them, and nothing panics.

use mrc_conform::{Script, builtin, engine, run};
use mrc_core::Rng;

/// Replaces one word of a script by one of another, or one character by any.
fn mutate(text: &str, words: &[&str], rng: &mut Rng) -> String {
    let spots: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let at = rng.below(spots.len() as u32) as usize;
    let mut out = String::new();
    for (n, spot) in spots.iter().enumerate() {
        if n != at {
            out.push_str(spot);
            continue;
        }
        if rng.below(2) == 0 {
            out.push_str(words[rng.below(words.len() as u32) as usize]);
            out.push(if spot.ends_with('\n') { '\n' } else { ' ' });
        } else {
            let mut chars: Vec<char> = spot.chars().collect();
            let which = rng.below(chars.len() as u32) as usize;
            chars[which] = char::from(rng.below(128) as u8);
            out.extend(chars);
        }
    }
    out
}

#[test]
fn typing_errors_never_panic() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5EED);
    println!("SEED={seed} replays this run");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance");
    let scripts = builtin().unwrap();
    let texts: Vec<String> =
        scripts.iter().map(|script| std::fs::read_to_string(root.join(&script.file)).unwrap()).collect();
    let words: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    let mut rng = Rng::new(seed);
    let (mut refused, mut played) = (0, 0);
    for n in 0..4_000 {
        let mut text = texts[n % texts.len()].clone();
        for _ in 0..=rng.below(3) {
            text = mutate(&text, &words, &mut rng);
        }
        let Ok(script) = Script::parse("mutant", &text) else {
            refused += 1;
            continue;
        };
        // Quick ones only: a mutant may ask for seconds of probes.
        if script.steps.last().is_some_and(|step| step.at < 50_000_000) {
            played += 1;
            let _ = engine::with_virtual(&script.knobs, |target, facts| run(&script, facts, target));
        }
    }
    println!("{refused} refused, {played} played");
    assert!(refused > 300 && played > 300, "{refused} refused, {played} played");
}
