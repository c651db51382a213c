#!/usr/bin/env python3
"""The public interface of each crate that is published, as text: what its documentation pages declare.

  cargo doc --workspace --no-deps && packaging/api.py           writes packaging/api/CRATE.txt
  cargo doc --workspace --no-deps && packaging/api.py --check   says what differs; exit code 1 if anything does

rustdoc's own list (JSON) needs an unstable compiler; the pages come from the stable one."""
import difflib
import html.parser
import os
import pathlib
import re
import sys

CRATES = ["mrc-wire", "mrc-core", "mrc-core-c", "mrc-afxdp", "mrc-lab", "mrc-verbs-shim", "mrc-mapper", "mrc-sim", "mrc-conform"]
VOID = {"meta", "link", "img", "br", "hr", "input", "wbr", "source"}
root = pathlib.Path(__file__).resolve().parent.parent
doc = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "doc"


class Page(html.parser.HTMLParser):
    """Declarations of one page, without what every type gets for nothing (auto traits, blanket implementations)."""

    def __init__(self):
        super().__init__()
        self.declarations, self.open, self.depth, self.ended = [], None, 0, False

    def handle_starttag(self, tag, attributes):
        attributes = {name: value or "" for name, value in attributes}
        self.ended |= attributes.get("id", "") in ("synthetic-implementations", "blanket-implementations")
        classes = attributes.get("class", "").split()
        if self.open is None and not self.ended and ("item-decl" in classes or "code-header" in classes):
            self.open, self.depth = "", 0
        if self.open is not None and tag not in VOID:
            self.depth += 1

    def handle_endtag(self, tag):
        if self.open is None or tag in VOID:
            return
        self.depth -= 1
        if self.depth <= 0:
            text = re.sub(r"\s+", " ", self.open).strip()
            if text:
                self.declarations.append(text)
            self.open = None

    def handle_data(self, data):
        if self.open is not None:
            self.open += data


def listing(crate):
    folder, lines = doc / crate.replace("-", "_"), []
    if not folder.is_dir():
        sys.exit(f"api.py: {folder} does not exist: run cargo doc --workspace --no-deps first")
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder)
        if path.name in ("all.html", "index.html") or "src" in name.parts or name.parts[0].startswith("sidebar"):
            continue
        page = Page()
        page.feed(path.read_text())
        module = "::".join(name.parts[:-1])
        for index, text in enumerate(page.declarations):
            lines.append(f"{module + '::' if module else ''}{name.stem.split('.')[-1]}: {text}" if index == 0 else f"    {text}")
    return "\n".join(lines) + "\n"


different = False
for crate in CRATES:
    path = root / "packaging" / "api" / f"{crate}.txt"
    text = listing(crate)
    if sys.argv[1:] == ["--check"]:
        old = path.read_text() if path.exists() else ""
        diff = list(difflib.unified_diff(old.splitlines(), text.splitlines(), str(path.relative_to(root)), "documentation", "", "", 0, ""))
        print("\n".join(diff), end="\n" if diff else "")
        different |= bool(diff)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"{path.relative_to(root)}: {len(text.splitlines())} declarations")
sys.exit(1 if different else 0)
