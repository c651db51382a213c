#!/usr/bin/env python3
"""Runs the commands of a page and compares what they print with what the page shows.

    docs/quickstart.py PAGE...          check; exit code 1 names the first difference
    docs/quickstart.py --write PAGE...  put what the commands print into the page

A command is a line `$ ...` in a block of type `console`; the lines behind it are what it prints. Numbers may differ: runs of
digits count as equal. `...` on a line of its own stands for any lines. The commands of one page run in one shell, in a new folder,
with the repository in $REPO. `mrc` is the one in $PATH; the folder of $MRC goes in front of it. A loop that begins with `until`
has 120 seconds ($LOOP_SECONDS), then it ends with a message. With $RUN_IN, a command such as `chroot ROOT`, the shell runs there.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def parse(text):
    """Every command with its place and the lines shown behind it."""
    found, inside, lines = [], False, text.split("\n")
    for n, line in enumerate(lines):
        if line.startswith("```"):
            inside = line == "```console" if not inside else False
        elif inside and line.startswith("$ "):
            found.append([n, line[2:], []])
        elif inside and found:
            found[-1][2].append(line)
    return lines, found


LOOP_SECONDS = int(os.environ.get("LOOP_SECONDS", "120"))
GAVE_UP = """gave_up() {
    [ "$SECONDS" -ge "$loop_end" ] && echo "gave up after $1 s: the condition of this loop never held"
}
"""


def bounded(command):
    """The command; a loop that waits for something waits for a while only."""
    if not command.startswith("until "):
        return command
    return f"loop_end=$((SECONDS + {LOOP_SECONDS}))\n" + command.replace("; do ", f" || gave_up {LOOP_SECONDS}; do ", 1)


def run(commands):
    """What each command prints, from one shell that runs them all."""
    mark = "--- %s ---" % os.urandom(8).hex()
    script = "exec 2>&1\n" + GAVE_UP + "".join(f"{bounded(command)}\necho; echo '{mark}' $?\n" for command in commands)
    inside = shlex.split(os.environ.get("RUN_IN", ""))
    if inside:
        script = "cd $(mktemp -d)\n" + script
    path = os.environ["PATH"]
    if "MRC" in os.environ:
        path = os.path.dirname(os.path.abspath(os.environ["MRC"])) + ":" + path
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*inside, "bash", "-c", script], cwd=folder, env={**os.environ, "PATH": path, "REPO": REPO},
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=1800)
    outputs, current = [], []
    for line in done.stdout.split("\n"):
        if line.startswith(mark):
            if current and current[-1] == "":
                current.pop()
            outputs.append((current, int(line.split()[-1])))
            current = []
        else:
            current.append(line)
    while len(outputs) < len(commands):
        outputs.append((current, -1))
    return outputs


def plain(line):
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|[0-9a-f]{12,}|\d+(\.\d+)?", "#", line)).strip()


def same(shown, printed):
    """None, or the first line shown that was not printed."""
    at, free = 0, False
    for line in shown:
        if line.strip() == "...":
            free = True
            continue
        while at < len(printed) and plain(printed[at]) != plain(line) and free:
            at += 1
        if at == len(printed) or plain(printed[at]) != plain(line):
            return line
        at, free = at + 1, False
    return None if free or at == len(printed) else "(end of the output)"


def main(arguments):
    write = "--write" in arguments
    bad = 0
    for page in [argument for argument in arguments if argument != "--write"]:
        lines, commands = parse(open(page).read())
        outputs = run([command for _, command, _ in commands])
        new, last = [], 0
        for (n, command, shown), (printed, code) in zip(commands, outputs):
            new += lines[last:n + 1] + printed
            last = n + 1 + len(shown)
            wrong = same(shown, printed)
            if not write and wrong is not None:
                bad += 1
                print(f"{page}:{n + 1}: `{command}` (exit code {code}) should print\n    {wrong}\nand printed")
                print("\n".join("    " + line for line in printed))
        if write:
            open(page, "w").write("\n".join(new + lines[last:]))
        elif not bad:
            print(f"ok: {page}: {len(commands)} commands")
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))
