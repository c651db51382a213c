//! Plain English as a check: words that the glossary replaces, and sentences too long to understand at once, in the pages of
//! the project and in the heads of its source files. `spec/language.toml` has the words and the counts.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A sentence of more words is counted.
const LONG: usize = 30;

#[derive(Deserialize)]
struct Rules {
    long_sentences: Limits,
    word: Vec<Word>,
}

/// At most so many long sentences; lower these when you rewrite some.
#[derive(Deserialize)]
struct Limits {
    pages: usize,
    heads: usize,
}

#[derive(Deserialize)]
struct Word {
    not: String,
    write: String,
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Logs and the changelog tell history; the guide shows the words it refuses.
        let skipped = ["target", "log", "CHANGELOG.md", "CONTRIBUTING.md", "corpus"].contains(&name.as_str());
        if skipped || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, into);
        } else if name.ends_with(".md") || name.ends_with(".rs") {
            into.push(path);
        }
    }
}

/// The paragraphs of a page, each as one line, without code, tables and headings; of a source file those of its head.
fn paragraphs(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let source = path.extension().is_some_and(|extension| extension == "rs");
    let (mut all, mut open, mut code) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        let line = match (source, line.strip_prefix("//!")) {
            (true, Some(rest)) => rest.strip_prefix(' ').unwrap_or(rest),
            (true, None) => break,
            (false, _) => line,
        };
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        let item = ["* ", "- "].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
        let apart = fence || code || line.trim().is_empty() || line.starts_with(['|', '#']) || line.starts_with("    ");
        if apart || item.is_some() {
            all.push(std::mem::take(&mut open));
        }
        if !apart {
            open.push_str(item.unwrap_or(line).trim());
            open.push(' ');
        }
    }
    all.push(open);
    all.retain(|paragraph| !paragraph.is_empty());
    all
}

/// The sentences of a paragraph; a colon or semicolon ends one too.
fn sentences(paragraph: &str) -> Vec<String> {
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for word in paragraph.split_whitespace() {
        open.push(word);
        if word.ends_with(['.', '!', '?', ':', ';']) {
            all.push(open.join(" "));
            open.clear();
        }
    }
    all.push(open.join(" "));
    all
}

/// Whether `text` has these words, as whole words and in any case.
fn has(text: &str, words: &str) -> bool {
    let plain: String =
        text.chars().map(|c| if c.is_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { ' ' }).collect();
    let plain = format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "));
    plain.contains(&format!(" {words} "))
}

#[test]
fn pages_and_heads_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rules = std::fs::read_to_string(root.join("spec/language.toml")).unwrap();
    let rules: Rules = toml::from_str(&rules).unwrap();
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 300, "{} files", files.len());
    let (mut long, mut words) = ([Vec::new(), Vec::new()], Vec::new());
    for path in &files {
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let head = usize::from(name.ends_with(".rs"));
        for paragraph in paragraphs(path) {
            for word in rules.word.iter().filter(|word| has(&paragraph, &word.not)) {
                words.push(format!("{name}: not `{}`, write {}: {paragraph}", word.not, word.write));
            }
            let count = |sentence: &String| sentence.split_whitespace().count();
            let counted = sentences(&paragraph).into_iter().filter(|sentence| count(sentence) > LONG);
            long[head].extend(counted.map(|sentence| format!("{} words, {name}: {sentence}", count(&sentence))));
        }
    }
    assert!(words.is_empty(), "{}", words.join("\n"));
    let [pages, heads] = long;
    println!("sentences of more than {LONG} words: {} in pages, {} in heads of source files", pages.len(), heads.len());
    for (found, limit, what) in
        [(pages, rules.long_sentences.pages, "pages"), (heads, rules.long_sentences.heads, "heads")]
    {
        assert!(
            found.len() <= limit,
            "{} sentences of more than {LONG} words in {what}, at most {limit}; divide some:\n{}",
            found.len(),
            found.join("\n")
        );
    }
}

#[test]
fn words_and_sentences_are_found() {
    assert!(has("the thread naps, then", "naps") && !has("synapse", "naps"));
    assert!(has("It is Sent\nagain.", "sent again"));
    assert_eq!(sentences("One. Two; three: four").len(), 4);
}
