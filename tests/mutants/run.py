#!/usr/bin/env python3
"""Mutation testing of the engine: every mutant that cargo-mutants lists, in one build.

  tests/mutants/run.py                  builds in a private copy of the tree, runs what has no result yet
  tests/mutants/run.py --again          runs the mutants that survived once more, after tests were added
  tests/mutants/run.py --report         counts per room, with the 95 % interval; the survivors without an explanation
  tests/mutants/run.py --only REGEX     only mutants whose name matches
  tests/mutants/run.py --constants      those of constants and of items outside functions, a build for each

How: each mutated function holds its original body and one copy per mutant; the environment variable MRC_MUTANT names
the copy that runs. A mutant whose copy does not compile is "invalid". A first run of each test, alone, records which
functions it enters and what processor time it takes. A mutant is then judged by the tests that enter its function: those
that caught a neighbour first, then the cheapest. The tests are those of mrc-core and the scripts of tests/conformance; with
--simulator also some of mrc-sim. The first failure ends it. A test that takes far more processor time
than without the mutant counts as caught ("endless"). Mutants of constants and of items outside functions have no copy
to run: each takes a build of its own, in a second copy of the tree, and meets all tests there, those of the library first.

Results: tests/mutants/results.tsv, one line per mutant, written as they come; a run that is stopped goes on where it was.
The order is random with a fixed seed, so that an unfinished run is a fair sample. tests/mutants/same.tsv names the
mutants that are the same program, and why; tests/mutants/explained.tsv those that survive, although a caller could tell them,
and what the difference is. Both count as not caught. Needs cargo-mutants (cargo install --locked cargo-mutants).

The private build sets RUSTC_BOOTSTRAP, because `const` functions must look at the environment only when they run."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests/mutants"
# Folders of mrc-core/src with a row of their own in the report; what stands elsewhere there shares one.
ROOMS = ["requester", "responder", "path", "cc", "endpoint"]
ELSEWHERE = "elsewhere"
# The model's share per mutant: enough to visit every operation, few enough to take seconds.
MODEL_SCHEDULES = "6000"
CHEAP = 0.25  # seconds; a test above this runs alone, after all the cheap ones
DEAR = 1.0  # seconds; a test above this runs with --deep only, but for the model
SUITE = "suite"  # the program that plays the conformance scripts
# Tests of the simulator that compare no digests: messages complete, nothing is misplaced, few packets leave again.
SIMULATOR = ["conservation", "demo", "experiments", "incast", "one_plane", "schemes"]
SWITCH = """
#![allow(warnings)]
extern crate std as standard;
use core::sync::atomic::{AtomicU32, AtomicBool, Ordering};
use standard::{env, fs, io::Write, string::String};
const UNKNOWN: u32 = u32::MAX;
const TRACE: u32 = u32::MAX - 1;
static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
#[inline(always)]
pub(crate) const fn pick(first: u32, count: u32) -> u32 {
    core::intrinsics::const_eval_select((first, count), none, active)
}
const fn none(_: u32, _: u32) -> u32 { u32::MAX }
#[inline(always)]
fn active(first: u32, count: u32) -> u32 {
    let id = ACTIVE.load(Ordering::Relaxed);
    if id >= TRACE { return slow(first, count) }
    id
}
#[cold]
#[inline(never)]
fn slow(first: u32, count: u32) -> u32 {
    if ACTIVE.load(Ordering::Relaxed) == UNKNOWN {
        let id = match env::var("MRC_MUTANT") { Ok(text) if text == "trace" => TRACE, Ok(text) => text.parse().unwrap(), Err(_) => TRACE - 1 };
        ACTIVE.store(id, Ordering::Relaxed);
    }
    if ACTIVE.load(Ordering::Relaxed) == TRACE {
        if !SEEN[first as usize].swap(true, Ordering::Relaxed) {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(env::var("MRC_MUTANT_TRACE").unwrap()).unwrap();
            let _ = file.write_all(standard::format!("{first}\\n").as_bytes());
        }
        return TRACE - 1;
    }
    ACTIVE.load(Ordering::Relaxed)
}
"""


def read_mutants(work):
    """cargo-mutants' list, in a fixed order, without the mutants of test files."""
    kept, source = work / "list.json", hashlib.sha256()
    for path in sorted((ROOT / "mrc-core/src").rglob("*.rs")):
        source.update(path.read_bytes())
    if kept.exists():
        stamp, found = json.loads(kept.read_text())
        if stamp == source.hexdigest():
            return found
    command = ["cargo", "mutants", "--list", "--json", "-p", "mrc-core", "-f", "mrc-core/src/**", "-e", "**/*tests*", "-e", "**/*tests/**"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    place = lambda span: (span["start"]["line"], span["start"]["column"], span["end"]["line"], span["end"]["column"])
    found.sort(key=lambda m: (m["file"], place(m["function"]["span"]) if m["function"] else (0,), place(m["span"]), m["replacement"]))
    for number, mutant in enumerate(found, 1):
        mutant["id"] = number
        mutant["name"] = mutant["name"].removeprefix("mrc-core/src/")
        mutant.pop("diff", None)
    work.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([source.hexdigest(), found]))
    return found


def offsets(text, span):
    """Start and end of a span (lines and columns from 1) as indices of `text`."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return tuple(starts[span[side]["line"] - 1] + span[side]["column"] - 1 for side in ("start", "end"))


SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', re.S)


def body_start(text, start, end):
    """Index behind the brace that opens the body of the function at `start`."""
    at, depth = text.index("fn ", start), 0
    while at < end:
        skipped = SKIPPED.match(text, at)
        if skipped:
            at = skipped.end()
            continue
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        if text[at] == "{" and depth == 0:
            return at + 1
        at += 1
    raise ValueError("no body: " + text[start:end])


def weave(path, mutants):
    """The file with every mutant in it, and for each of its lines the mutant that stands there (0: the original)."""
    text = (ROOT / path).read_text()
    functions = collections.defaultdict(list)
    for mutant in mutants:
        functions[offsets(text, mutant["function"]["span"])].append(mutant)
    pieces, owners, last = [], [], 0

    def put(piece, owner):
        pieces.append(piece)
        owners.extend([owner] * piece.count("\n"))

    for (start, end), group in sorted(functions.items()):
        assert start >= last, f"{path}: a function with mutants inside another"
        begin, close = body_start(text, start, end), end - 1
        first, count = group[0]["id"], len(group)
        put(text[last:begin], 0)
        put(f" match crate::mutants::pick({first}, {count}) {{\n", 0)
        for mutant in group:
            left, right = offsets(text, mutant["span"])
            body = text[begin:left] + mutant["replacement"] + " " + text[right:close]
            put(f"{mutant['id']} => {{\n", mutant["id"])
            put(body + "\n}\n", mutant["id"])
        put("_ => {\n" + text[begin:close] + "\n}\n}\n", 0)
        last = close
    put(text[last:], 0)
    return "".join(pieces), owners + [0]


class Build:
    """The private copy of the tree and what is built there."""

    def __init__(self, work):
        self.tree, self.target, self.work = work / "tree", work / "target", work
        self.invalid = set()
        self.cargo = ["--offline", "--config", "profile.dev.package.mrc-core.opt-level=1"]
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": str(self.target), "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "--cap-lints=allow",
            "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "1",
        }

    def copy(self):
        files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        for name in files.stdout.splitlines():
            source, copy = ROOT / name, self.tree / name
            if source.is_symlink():
                copy.parent.mkdir(parents=True, exist_ok=True)
                if not copy.is_symlink():
                    copy.symlink_to(os.readlink(source))
                continue
            if name.startswith("mrc-core/src/") or not source.is_file():
                continue
            content = source.read_bytes()
            if not copy.exists() or copy.read_bytes() != content:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)

    def put(self, path, text):
        """Writes only what differs, so that a second build has little to do."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def sources(self, woven):
        for path in sorted((ROOT / "mrc-core/src").rglob("*.rs")):
            name = str(path.relative_to(ROOT))
            # Copies inside copies would multiply.
            text = (woven.get(name) or path.read_text()).replace("#[inline(always)]", "#[inline(never)]")
            if name == "mrc-core/src/lib.rs":
                text = text.replace("#![no_std]", "#![no_std]\n#![feature(core_intrinsics, const_eval_select)]", 1)
                text = text.replace("\npub mod cc;", "\nmod mutants;\npub mod cc;", 1)
            self.put(self.tree / name, text)

    def weave_all(self, mutants):
        """Puts all mutants in, takes out those that do not compile, round by round."""
        self.copy()
        switch = SWITCH.replace("COUNT]", f"{len(mutants) + 1}]").replace("; COUNT", f"; {len(mutants) + 1}")
        self.put(self.tree / "mrc-core/src/mutants.rs", switch)
        known = self.work / "invalid.json"
        names = set(json.loads(known.read_text())) if known.exists() else set()
        self.invalid = {mutant["id"] for mutant in mutants if mutant["name"] in names}
        while True:
            woven, owners = {}, {}
            files = collections.defaultdict(list)
            for mutant in mutants:
                if mutant["function"] and mutant["id"] not in self.invalid:
                    files[mutant["file"]].append(mutant)
            for path, group in files.items():
                woven[path], owners[path] = weave(path, group)
            self.sources(woven)
            stamp = hashlib.sha256(repr(sorted(woven.items())).encode()).hexdigest()
            checked = self.work / "checked"
            if checked.exists() and checked.read_text() == stamp:
                return
            bad = self.check(owners)
            if not bad:
                checked.write_text(stamp)
            print(f"{len(self.invalid)} invalid, {len(bad)} more", flush=True)
            if not bad:
                return
            self.invalid |= bad
            known.write_text(json.dumps([mutant["name"] for mutant in mutants if mutant["id"] in self.invalid]))

    def check(self, owners):
        """The mutants in which the compiler finds an error."""
        command = ["cargo", "check", "-p", "mrc-core", "--lib", "--profile", "test", "--message-format=json", *self.cargo]
        run = subprocess.run(command, cwd=self.tree, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        bad, lost = set(), []
        for line in run.stdout.splitlines():
            record = json.loads(line)
            if record["reason"] != "compiler-message" or record["message"]["level"] != "error":
                continue
            message = record["message"]
            ids = set()
            for wanted in (True, False):
                for span in message["spans"]:
                    if span["is_primary"] == wanted and span["file_name"] in owners and not ids:
                        ids = {owners[span["file_name"]][span["line_start"] - 1]} - {0}
            bad |= ids
            if not ids and message["spans"]:
                lost.append(message["rendered"])
        if run.returncode != 0 and not bad:
            sys.exit("the woven tree does not compile:\n" + "\n".join(lost[:5]) + run.stderr[-2000:])
        return bad

    def mutate(self, mutant):
        """The sources as they are, but for one mutant."""
        for path in sorted((ROOT / "mrc-core/src").rglob("*.rs")):
            name, text = str(path.relative_to(ROOT)), path.read_text()
            if name == mutant["file"]:
                left, right = offsets(text, mutant["span"])
                text = text[:left] + mutant["replacement"] + " " + text[right:]
            self.put(self.tree / name, text)

    def tests(self, simulator=False, wanted=None):
        """Builds and returns {target: binary}."""
        made = {}
        wanted = wanted or [["-p", "mrc-core", "--lib", "--tests"], ["-p", "mrc-conform", "--test", SUITE]]
        if simulator:
            wanted.append(["-p", "mrc-sim", "--config", "profile.dev.package.mrc-sim.opt-level=1"])
            wanted[-1] += [word for name in SIMULATOR for word in ("--test", name)]
        for part in wanted:
            command = ["cargo", "test", "--no-run", "--message-format=json", *part, *self.cargo]
            run = subprocess.run(command, cwd=self.tree, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if run.returncode != 0:
                return None, run.stderr + run.stdout[-3000:]
            for line in run.stdout.splitlines():
                record = json.loads(line)
                if record["reason"] == "compiler-artifact" and record["profile"]["test"] and record["executable"]:
                    kind = record["target"]["kind"][0]
                    made["lib" if kind == "lib" else record["target"]["name"]] = record["executable"]
        return made, ""


def limits(seconds):
    def apply():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


def run_tests(build, binary, names, environment, seconds):
    """Runs tests of one binary until one fails: (outcome, its name). `seconds` of processor time are allowed."""
    environment = os.environ | {"RUST_BACKTRACE": "0", "RUST_MIN_STACK": str(32 << 20), "MRC_MODEL_SCHEDULES": MODEL_SCHEDULES,
                                "MRC_MODEL_BRIEF": "1", "PROPTEST_FAILURE_PERSISTENCE": "off"} | environment
    suite = pathlib.Path(binary).name.startswith(SUITE + "-")
    command = [binary, *names] if suite else [binary, "--exact", "--test-threads=1", *names]
    started_with = names[0] if names else ""
    child = subprocess.Popen(command, cwd=build.tree / "mrc-core", env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             text=True, errors="replace", preexec_fn=limits(seconds))
    guard = threading.Timer(60 + 20 * seconds, child.kill)
    guard.start()
    current, failed, passed = "", None, 0
    buffered = ""
    try:
        # A test's name comes before it runs, its verdict behind it.
        while piece := os.read(child.stdout.fileno(), 65536):
            buffered += piece.decode(errors="replace")
            if found := re.search(r"^FAILED (?:tests/conformance/)?([^:\s]+)" if suite else r"^test (\S+) .*?\.\.\. .*?FAILED", buffered, re.M):
                failed = found[1]
                break
    finally:
        if failed:
            child.kill()
        code = child.wait()
        guard.cancel()
        child.stdout.close()
    passed = len(re.findall(r"^test \S+ .*?\.\.\. .*?ok$", buffered, re.M))
    if failed:
        return "caught", failed
    if code == 0:
        return ("passed", "") if passed or suite else ("absent", "")
    if code == -15:
        sys.exit("stopped")
    started = re.findall(r"^test (\S+) ", buffered, re.M)
    current = started[-1] if started else started_with
    return ("endless" if code in (-24, -9) else "caught"), current


class Judge:
    """Which tests look at a mutant, and what they say."""

    def __init__(self, build, binaries, work, deep):
        self.deep = deep
        self.build, self.binaries = build, binaries
        self.reach, self.cost = collections.defaultdict(set), {}
        self.killers = collections.defaultdict(collections.Counter)
        self.work = work

    def learn(self, jobs):
        """Runs every test alone, without a mutant: what it enters, what it costs."""
        tests = []
        for target, binary in self.binaries.items():
            listed = subprocess.run([binary, "--list", "--format=terse"], cwd=self.build.tree / "mrc-core", stdout=subprocess.PIPE, text=True, check=True).stdout
            tests += [(target, line.removesuffix(": test")) for line in listed.splitlines() if line.endswith(": test")]

        def look(test):
            target, name = test
            trace = self.work / f"trace-{threading.get_ident()}"
            trace.write_text("")
            binary = self.binaries[target]
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            outcome, _ = run_tests(self.build, binary, [name], {"MRC_MUTANT": "trace", "MRC_MUTANT_TRACE": str(trace)}, 600)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - begin.ru_utime - begin.ru_stime
            return test, outcome, spent, {int(line) for line in trace.read_text().split()}

        # What did not change since the last run need not be asked again.
        known_path = self.work / "tests.json"
        known = json.loads(known_path.read_text()) if known_path.exists() else {}
        stamps = {target: hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest() for target, binary in self.binaries.items()}
        for test in tests:  # one by one: the times are differences of a sum
            key = f"{stamps[test[0]]} {test[1]}"
            if key not in known:
                _, outcome, spent, entered = look(test)
                known[key] = outcome, spent, sorted(entered)
            outcome, spent, entered = known[key]
            if outcome == "absent":
                continue  # ignored tests
            if outcome != "passed":
                sys.exit(f"{test} fails without a mutant ({outcome})")
            self.cost[test] = spent
            for function in entered:
                self.reach[function].add(test)
        known_path.write_text(json.dumps({key: value for key, value in known.items() if key.split()[0] in stamps.values()}))
        print(f"{len(self.cost)} tests, {sum(self.cost.values()):.0f} s of processor time", flush=True)

    def batches(self, function):
        """Lists of tests of one binary, in the order in which they shall run."""
        tests = self.reach[function]
        favourites = [test for test, _ in self.killers[function].most_common(2) if test in tests]
        yield from ([test] for test in favourites)
        cheap, dear = collections.defaultdict(list), []
        for test in sorted(tests, key=self.cost.get):
            if test in favourites:
                continue
            if self.cost[test] <= CHEAP:
                cheap[test[0]].append(test)
            elif self.deep or self.cost[test] <= DEAR or test[0] == "model":
                dear.append([test])
        total = lambda batch: sum(self.cost[test] for test in batch)
        yield from sorted(cheap.values(), key=total)
        yield from sorted(dear, key=total)

    def judge(self, mutant, function, again=()):
        begin = time.time()
        for batch in self.batches(function):
            seconds = math.ceil(2 + 3 * sum(self.cost[test] for test in batch))
            target = batch[0][0]
            outcome, name = run_tests(self.build, self.binaries[target], [test[1] for test in batch], {"MRC_MUTANT": str(mutant["id"])}, seconds)
            if outcome != "passed":
                self.killers[function][(target, name)] += 1
                return outcome, f"{target}::{name}", time.time() - begin
        return "survived", "" if self.reach[function] else "no test enters", time.time() - begin


def judge_constant(build, mutant):
    """Builds the tree with one mutant and runs the tests: (outcome, the test that caught it)."""
    build.mutate(mutant)
    for wanted in (["-p", "mrc-core", "--lib"], ["-p", "mrc-conform", "--test", SUITE], ["-p", "mrc-core", "--tests"]):
        binaries, errors = build.tests(wanted=[wanted])
        if binaries is None:
            return "invalid", ""
        for target, binary in binaries.items():
            if target == "lib" and "--tests" in wanted:
                continue
            outcome, name = run_tests(build, binary, [], {}, 600)
            if outcome != "passed":
                return outcome, f"{target}::{name}"
    return "survived", ""


def load(path):
    results = {}
    if path.exists():
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                name, outcome, by = (line.split("\t") + [""])[:3]
                results[name] = (outcome, by)
    return results


def save(path, results, mutants, commit):
    order = {mutant["name"]: mutant["id"] for mutant in mutants}
    lines = [f"# {commit}: mutant, outcome, the test that caught it"]
    lines += ["\t".join((name, *results[name])).rstrip() for name in sorted(results, key=lambda name: order.get(name, 0)) if name in order]
    path.write_text("\n".join(lines) + "\n")


def same(path):
    """Names of mutants with the reason why they survive; without their lines, so that they outlive a change elsewhere in the file."""
    pairs = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")] if path.exists() else []
    return {name: why for name, why in pairs}


def bare(name):
    """A name without its line."""
    return re.sub(r":\d+:(\d+):", r":\1:", name)


def carry(results, mutants):
    """Results of mutants whose lines have moved: as many of one name without line as before, in the same order."""
    now = {mutant["name"] for mutant in mutants}
    line = lambda name: [int(part) for part in re.findall(r":(\d+):(\d+):", name)[0]]
    old, new = collections.defaultdict(list), collections.defaultdict(list)
    for name in sorted((name for name in results if name not in now), key=line):
        old[bare(name)].append(results[name])
    for name in sorted((name for name in now if name not in results), key=line):
        new[bare(name)].append(name)
    for key, names in new.items():
        if len(names) == len(old[key]):
            results.update(zip(names, old[key]))
    return results


def wilson(hits, total):
    if total == 0:
        return 0.0, 1.0
    z, rate = 1.96, hits / total
    middle, spread = rate + z * z / (2 * total), z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    return (middle - spread) / (1 + z * z / total), (middle + spread) / (1 + z * z / total)


def report(results, mutants, explained, differ):
    rows = collections.defaultdict(collections.Counter)
    open_ones = []
    for mutant in mutants:
        outcome, by = results.get(mutant["name"], ("not run", ""))
        if outcome == "survived":
            outcome = "same" if bare(mutant["name"]) in explained else outcome
        if outcome == "survived" and bare(mutant["name"]) not in differ:
            open_ones.append(f"{mutant['name']}  {by}".rstrip())
        room = mutant["name"].split("/")[0]
        for row in (room if room in ROOMS else ELSEWHERE, "all"):
            rows[row][outcome] += 1
    kinds = ["not run", "invalid", "caught", "endless", "same", "survived"]
    print(f"{'':10} {'mutants':>8}", *(f"{kind:>8}" for kind in kinds), " caught of the viable, 95 % interval; without those that nobody can tell")
    for row in [*ROOMS, ELSEWHERE, "all"]:
        count = rows[row]
        killed = count["caught"] + count["endless"]
        differ = killed + count["survived"]
        viable = differ + count["same"]
        low, high = wilson(killed, viable)
        print(f"{row:10} {count.total():8}", *(f"{count[kind]:8}" for kind in kinds),
              f" {100 * killed / max(viable, 1):.1f} % ({100 * low:.1f} to {100 * high:.1f})  {100 * killed / max(differ, 1):.1f} %")
    for name in open_ones:
        print("survived:", name)
    return not open_ones


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/mutants", help="where the private copy and its build are")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", default="", help="regular expression on the names")
    parser.add_argument("--again", action="store_true", help="the survivors too")
    parser.add_argument("--deep", action="store_true", help="the tests that take long, too; with --again also on survivors that have a reason")
    parser.add_argument("--simulator", action="store_true", help="the tests of the simulator, too")
    parser.add_argument("--constants", action="store_true", help="a build for each mutant outside functions, and no other")
    parser.add_argument("--report", action="store_true", help="no run")
    parser.add_argument("--build", action="store_true", help="build, and no run")
    parser.add_argument("--limit", type=int, default=10**9, help="mutants in this run")
    options = parser.parse_args()
    mutants = read_mutants(options.work)
    path = HERE / "results.tsv"
    results, explained, differ = carry(load(path), mutants), same(HERE / "same.tsv"), same(HERE / "explained.tsv")
    if options.report:
        sys.exit(not report(results, mutants, explained, differ))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    if options.constants:
        build = Build(options.work.resolve() / "plain")
        build.copy()
        for mutant in mutants:
            if mutant["function"] or mutant["name"] in results or not re.search(options.only, mutant["name"]):
                continue
            results[mutant["name"]] = outcome, by = judge_constant(build, mutant)
            print(f"{outcome}  {mutant['name']}  {by}", flush=True)
            with path.open("a") as file:
                file.write(f"{mutant['name']}\t{outcome}\t{by}\n")
        save(path, carry(load(path), mutants), mutants, commit)
        return
    build = Build(options.work.resolve())
    build.work.mkdir(parents=True, exist_ok=True)
    build.weave_all(mutants)
    for mutant in mutants:
        if mutant["id"] in build.invalid:
            results[mutant["name"]] = ("invalid", "")
    binaries, errors = build.tests(options.simulator)
    if binaries is None:
        sys.exit(errors)
    if options.build:
        return
    judge = Judge(build, binaries, build.work, options.deep)
    judge.learn(options.jobs)
    # A function is known by the first of its mutants that is in the build.
    function_of, first = {}, {}
    for mutant in mutants:
        if mutant["function"] and mutant["id"] not in build.invalid:
            key = (mutant["file"], json.dumps(mutant["function"]["span"]))
            function_of[mutant["id"]] = first.setdefault(key, mutant["id"])
    todo = [mutant for mutant in mutants if mutant["id"] in function_of and re.search(options.only, mutant["name"])
            and (mutant["name"] not in results or options.again and results[mutant["name"]][0] == "survived"
                 and (options.deep or bare(mutant["name"]) not in explained | differ))]
    random.Random(options.seed).shuffle(todo)
    todo = todo[: options.limit]
    begin, done = time.time(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(judge.judge, mutant, function_of[mutant["id"]]): mutant for mutant in todo}
        for future in concurrent.futures.as_completed(running):
            mutant, (outcome, by, seconds) = running[future], future.result()
            results[mutant["name"]] = (outcome, by)
            done += 1
            print(f"{done}/{len(todo)} {seconds:.1f} s  {outcome}  {mutant['name']}  {by}", flush=True)
            with path.open("a") as file:
                file.write(f"{mutant['name']}\t{outcome}\t{by}\n")
    for name, result in load(path).items():  # another run may have added to it
        results.setdefault(name, result)
    save(path, results, mutants, commit)
    print(f"{done} mutants in {time.time() - begin:.0f} s")
    report(results, mutants, explained, differ)


if __name__ == "__main__":
    main()
