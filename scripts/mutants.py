#!/usr/bin/env python3
"""Plants mistakes where translations are made, one at a time, and runs the test that must see each.

    scripts/mutants.py                   all of them
    scripts/mutants.py --only NAME       one, or all whose name contains NAME; may be repeated
    scripts/mutants.py --list            what there is
    scripts/mutants.py --check           whether each stands for text that its file has exactly once

The mistakes are planted in a git worktree of its own, which has what is committed and what is changed here, but no
untracked files. It builds into `target/mutants` and goes when the script ends. Before its first mutant each test
must pass as it is. A mutant is caught when its test builds and then fails, or runs out of time. The exit status is 1
when one survives, does not build, or stands for text that its file does not have exactly once.
"""

import argparse
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

from mutant_list import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "mutants"
TREE = TARGET / "tree"
# Seconds for a build, and for a test that is built.
BUILD_LIMIT, TEST_LIMIT = 1800, 600


def cargo(arguments, limit, tail=()):
    """Runs `cargo test` in the worktree: its exit status (None: out of time), and what it said last."""
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_INCREMENTAL": "1",
        # Built often, run for moments.
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_TERM_COLOR": "never",
        # What fails is planted: proptest must not write it down.
        "PROPTEST_FAILURE_PERSISTENCE": "off",
    }
    command = ["cargo", "test", "--locked", "--quiet", *shlex.split(arguments), *tail]
    process = subprocess.Popen(
        command,
        cwd=TREE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return None, said


def run(test):
    """Builds and runs a test: `passes`, `fails`, `hangs` or `does not build`, and what it said last."""
    status, said = cargo(test, BUILD_LIMIT, ["--no-run"])
    if status != 0:
        return "does not build" if status is not None else "builds too long", said
    status, said = cargo(test, TEST_LIMIT)
    return {0: "passes", None: "hangs"}.get(status, "fails"), said


def git(*arguments, **how):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, **how).stdout


def make_tree():
    TARGET.mkdir(parents=True, exist_ok=True)
    drop_tree()
    git("worktree", "add", "--detach", str(TREE), "HEAD")
    changed = git("diff", "--binary", "HEAD")
    if changed:
        subprocess.run(["git", "-C", str(TREE), "apply"], input=changed, check=True)


def drop_tree():
    if TREE.exists():
        git("worktree", "remove", "--force", str(TREE))
    git("worktree", "prune")


def misplaced(mutant, text):
    """Why a mutant cannot be planted in a text, or None."""
    count = text.count(mutant.text)
    return None if count == 1 else f"text found {count} times"


def check(mutants):
    """Whether all can be planted in what is here; says which cannot."""
    wrong = 0
    for mutant in mutants:
        path = ROOT / mutant.file
        if why := misplaced(mutant, path.read_text()) if path.is_file() else "no such file":
            wrong += 1
            print(f"mutants: {mutant.name}: {mutant.file}: {why}", file=sys.stderr)
    return not wrong


def plant(mutant):
    """Runs one mutant: what came of it, and what its test said last."""
    path = TREE / mutant.file
    text = path.read_text()
    if why := misplaced(mutant, text):
        return why, ""
    path.write_text(text.replace(mutant.text, mutant.mistake))
    try:
        result, said = run(mutant.test)
    finally:
        path.write_text(text)
    return {"fails": "caught", "hangs": "caught (hangs)", "passes": "survived"}.get(result, result), said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="tell what there is, and run nothing")
    parser.add_argument("--check", action="store_true", help="tell those whose text has changed, and run nothing")
    parser.add_argument("--only", action="append", metavar="NAME", help="only mutants whose name contains NAME")
    parser.add_argument("--verbose", action="store_true", help="show what the tests of survivors said")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if not arguments.only or any(part in mutant.name for part in arguments.only)]
    if not chosen:
        sys.exit("mutants: none has such a name; `--list` tells them")
    width = max(len(mutant.name) for mutant in chosen)
    if arguments.check:
        sys.exit(0 if check(chosen) else 1)
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.name:{width}}  {mutant.file}  cargo test {mutant.test}")
        return
    # Stopped from outside, it still puts the worktree away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: stopped"))
    make_tree()
    bad, sound = 0, set()
    try:
        # Tests one after the other, so that little is built anew between mutants.
        for mutant in sorted(chosen, key=lambda mutant: (mutant.test, mutant.file)):
            if mutant.test not in sound:
                result, said = run(mutant.test)
                if result != "passes":
                    sys.exit(f"{said}\nmutants: nothing is planted, and `cargo test {mutant.test}` {result}")
                sound.add(mutant.test)
            began = time.monotonic()
            result, said = plant(mutant)
            is_bad = not result.startswith("caught")
            bad += is_bad
            print(f"{mutant.name:{width}}  {result}  ({time.monotonic() - began:.0f} s)", flush=True)
            if is_bad and (arguments.verbose or result == "does not build"):
                print(said[-3000:], flush=True)
    finally:
        drop_tree()
    print(f"{len(chosen)} mutants, {len(chosen) - bad} caught")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
