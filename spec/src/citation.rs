//! Citations: the lines of the source tree that name a requirement.
//!
//! Code and tests cite with a comment line of their own, conformance scripts with their title line. The syntax is
//! explained in `spec/README.md`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::register::is_requirement_id;

/// What a citation claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The line below obeys the requirement.
    Code,
    /// The line below would notice a breach.
    Test,
}

/// One id named at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
}

/// File below the root and line, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// Everything the tree cites.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// In order of file and line.
    pub(crate) citations: Vec<Citation>,
    /// Lines that begin like a citation and are none, with the reason.
    pub(crate) malformed: Vec<(Place, String)>,
}

impl Scan {
    /// Reads every source file and conformance script below `root`.
    pub(crate) fn of_tree(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        collect(root, &mut files)?;
        files.sort();
        let mut scan = Self::default();
        for path in files {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let Some(syntax) = Syntax::of(&name) else {
                continue;
            };
            // A file may vanish or hold other bytes than text while others build; neither cites anything.
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            scan.file(&name, &text, syntax);
        }
        Ok(scan)
    }

    fn file(&mut self, name: &str, text: &str, syntax: Syntax) {
        for (index, line) in text.lines().enumerate() {
            let place = || Place { file: name.into(), line: index + 1 };
            match syntax.parse(line) {
                None => {}
                Some(Ok((ids, kind))) => {
                    let citation = |id| Citation { id, kind, place: place() };
                    self.citations.extend(ids.into_iter().map(citation));
                }
                Some(Err(reason)) => self.malformed.push((place(), reason)),
            }
        }
    }
}

/// How a file writes its citations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// `//= ID[, ID...] [test]` on a line of its own.
    Comment,
    /// `requires ID[, ID...]` or `# ID: title`, always a test.
    Script,
}

impl Syntax {
    fn of(name: &str) -> Option<Self> {
        let extension = Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension {
            "rs" | "c" | "h" | "v" => Some(Self::Comment),
            _ if name.starts_with("tests/conformance/") && extension != "md" => Some(Self::Script),
            _ => None,
        }
    }

    /// `None`: the line is no citation.
    fn parse(self, line: &str) -> Option<Result<(Vec<String>, Kind), String>> {
        match self {
            Self::Comment => line.trim().strip_prefix("//= ").map(comment),
            Self::Script if line.starts_with("requires ") => {
                let ids = line.strip_prefix("requires ").unwrap_or("");
                Some(comment(&format!("{ids} test")))
            }
            Self::Script => {
                let (id, _) = line.strip_prefix("# ")?.split_once(':')?;
                is_requirement_id(id).then(|| Ok((vec![id.to_string()], Kind::Test)))
            }
        }
    }
}

/// The part of a citation comment after its marker.
fn comment(rest: &str) -> Result<(Vec<String>, Kind), String> {
    let rest = rest.trim();
    let (list, kind) = match rest.strip_suffix(" test") {
        Some(list) => (list, Kind::Test),
        None => (rest, Kind::Code),
    };
    let ids: Vec<String> = list.split(',').map(|id| id.trim().to_string()).collect();
    match ids.iter().find(|id| !is_requirement_id(id)) {
        Some(id) => Err(format!("`{id}` is no id; write `//= SACK-004`, `//= SACK-004, SACK-005` or `... test`")),
        None => Ok((ids, kind)),
    }
}

/// All files below `dir`, without hidden folders, build output and links.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.starts_with('.') && name != "target" {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn scan_of(name: &str, text: &str) -> Scan {
        let mut scan = Scan::default();
        scan.file(name, text, Syntax::of(name).expect("a file that can cite"));
        scan
    }

    fn cited(name: &str, text: &str) -> Vec<(String, Kind, usize)> {
        scan_of(name, text).citations.into_iter().map(|c| (c.id, c.kind, c.place.line)).collect()
    }

    #[test]
    fn code_and_test_lines() {
        let text = "fn a() {\n    //= SACK-004\n    x();\n}\n//= BTH-001 test\nfn b() {}\n";
        let expected = [("SACK-004".to_string(), Kind::Code, 2), ("BTH-001".to_string(), Kind::Test, 5)];
        assert_eq!(cited("mrc-core/src/a.rs", text), expected);
    }

    #[test]
    fn several_ids_share_the_kind() {
        let cited = cited("a.rs", "//= SACK-004, ICRC-001 test\n");
        assert_eq!(cited.len(), 2);
        assert!(cited.iter().all(|(_, kind, _)| *kind == Kind::Test));
    }

    #[test]
    fn prose_and_rulers_are_no_citations() {
        let scan = scan_of("a.rs", "//! see //= SACK-004\n//======\nlet s = \"//= SACK-004\";\n// SACK-004\n");
        assert!(scan.citations.is_empty() && scan.malformed.is_empty(), "{scan:?}");
    }

    #[test]
    fn malformed_lines_are_reported_with_their_place() {
        for bad in ["//= SACK-4", "//= SACK-004 tests", "//= SACK-004 BTH-001", "//= test"] {
            let scan = scan_of("a.rs", bad);
            assert!(scan.citations.is_empty(), "{bad}");
            assert_eq!(scan.malformed.len(), 1, "{bad}");
            assert_eq!(scan.malformed[0].0.line, 1);
        }
    }

    #[test]
    fn conformance_scripts_cite_by_their_head() {
        let text = "# A gap is reported\nrequires SACK-004, SACK-005\n0 < write_only psn=0\n";
        let cited = cited("tests/conformance/sack/gap.mrc", text);
        assert_eq!(cited.len(), 2);
        assert_eq!(cited[1], ("SACK-005".to_string(), Kind::Test, 2));
        assert_eq!(scan_of("tests/conformance/a.mrc", "requires gaps\n").malformed.len(), 1);
    }

    #[test]
    fn conformance_scripts_cite_by_title() {
        let text = "# SACK-004: a gap is reported\n# about: nothing\n0ns < write qp=7\n";
        assert_eq!(cited("tests/conformance/gap.script", text), [("SACK-004".to_string(), Kind::Test, 1)]);
        assert_eq!(Syntax::of("tests/conformance/README.md"), None);
        assert_eq!(Syntax::of("docs/a.txt"), None);
    }
}
