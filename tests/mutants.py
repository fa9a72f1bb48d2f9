"""Change the code in small ways, one at a time, and print the changes that no test notices.

``python tests/mutants.py [FILE ...]`` mutates lines changed since ``--since``, or every line of the
files it is given, in a temporary copy of the repository. It runs the test files that are nearest to
a mutated module: those that import it or are named after it. Of these it runs the tests that
reach the mutated line, or all where line coverage does not know, as in compiled kernels.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from coverage import CoverageData  # noqa: E402
from support_mutants import Mutation, mutations  # noqa: E402

PARTS = ("analysis", "cli", "planner", "simkit")
MOST_FILES = 4
"""Test files to run for one module, the nearest first."""
FAR = 99


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file, by its path in the repository."""

    path: str
    mutation: Mutation

    def __str__(self) -> str:
        one = self.mutation
        return f"{self.path}:{one.line}: {one.before!r} -> {one.after!r}"


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def default_base() -> str:
    """Return where this branch left origin/main or main, or ten commits ago where it did not."""
    head = git("rev-parse", "HEAD").strip()
    for main in ("refs/remotes/origin/main", "refs/heads/main"):
        known = git("for-each-ref", "--format=%(refname)", main).strip()
        if known and (base := git("merge-base", known, "HEAD").strip()) != head:
            return base
    commits = git("rev-list", "--first-parent", "--max-count=11", "HEAD").split()
    return commits[-1]


def changed_lines(base: str) -> dict[str, set[int]]:
    """Return the lines of each Python file of the code that changed since it left a revision."""
    base = git("merge-base", base, "HEAD").strip()
    found: dict[str, set[int]] = {}
    lines: set[int] = set()
    for line in git("diff", "-U0", "--no-color", base, "--", *PARTS).splitlines():
        if line.startswith("+++ "):
            lines = found.setdefault(line.removeprefix("+++ b/"), set())
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.update(range(first, first + count))
    return {path: lines for path, lines in found.items() if path.endswith(".py") and lines}


def mutants_of(path: str, lines: set[int] | None) -> list[Mutant]:
    source = (ROOT / path).read_text(encoding="utf-8")
    return [Mutant(path, one) for one in mutations(source) if lines is None or one.line in lines]


def imports_of(path: Path) -> set[str]:
    """Return the full names of everything a file imports, at its top or within functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
    return found


def module_of(path: str) -> str:
    return "gpuplan." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def related_tests(path: str, tests: Path) -> list[str]:
    """Return the names of the test files that are nearest to a source file, nearest first.

    A step is one import, from a test over its support modules to the code. A test named after the
    module is as near as one that imports it, one named after its folder a step farther.
    """
    code = [one for part in PARTS for one in (ROOT / part).rglob("*.py")]
    imports = {module_of(str(one.relative_to(ROOT))): imports_of(one) for one in code}
    imports |= {one.stem: imports_of(one) for one in (tests / "support").glob("*.py")}
    imports |= {one.stem: imports_of(one) for one in tests.glob("test_*.py")}
    users: dict[str, set[str]] = {}
    for name, wanted in imports.items():
        for other in wanted:
            users.setdefault(other, set()).add(name)
    steps = {module_of(path): 0}
    front = [module_of(path)]
    while front:
        last, front = front, []
        for name in last:
            for user in sorted(users.get(name, ())):
                if user not in steps:
                    steps[user] = steps[name] + 1
                    front.append(user)
    folder, stem = Path(path).parent.name, Path(path).stem
    near = []
    for one in sorted(tests.glob("test_*.py")):
        words = one.stem.split("_")
        of_folder = folder in words and folder not in PARTS
        named = 1 if set(stem.split("_")) <= set(words) else 2 if of_folder else FAR
        if (step := min(named, steps.get(one.stem, FAR))) < FAR:
            near.append((step, not of_folder, f"tests/{one.name}"))
    return [name for *_, name in sorted(near)[:MOST_FILES]]


class Copy:
    """A copy of the tracked and new files of the repository, in which tests run."""

    def __init__(self, folder: Path, limit_s: float) -> None:
        self.root, self.limit_s, self.said = folder / "repository", limit_s, ""
        names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for name in names:
            if name and (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        for kept in (ROOT / "simkit").rglob("__pycache__/*.nb[ci]"):  # compiled kernels
            shutil.copy2(kept, self._cache_of(kept))
        if (ROOT.parent / "shared").exists():
            (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
        links = folder / "packages/gpuplan"
        links.mkdir(parents=True)
        for part in (*PARTS, "sample_traces"):
            (links / part).symlink_to(self.root / part)
        self.environment = os.environ | {
            "PYTHONPATH": str(links.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("COVERAGE_PROCESS_START", "NUMBA_CACHE_DIR", "PYTEST_ADDOPTS"):
            self.environment.pop(name, None)
        where = [sys.executable, "-c", "import gpuplan.simkit as s; print(s.__file__)"]
        found = subprocess.run(
            where, cwd=self.root, env=self.environment, capture_output=True, text=True, check=True
        ).stdout
        if str(folder) not in found:
            sys.exit(f"error: tests in the copy would import {found.strip()}, not the copy")

    def _cache_of(self, kept: Path) -> Path:
        place = self.root / kept.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        return place

    def passes(
        self, *arguments: str, limit_s: float | None = None, cache: str | None = None
    ) -> bool:
        """Run tests up to the first failure; too long a run fails.

        Args:
            arguments: of pytest.
            limit_s: how long they may take.
            cache: where compiled kernels are kept; None for beside their source.
        """
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *arguments],
                cwd=self.root,
                env=self.environment | ({"NUMBA_CACHE_DIR": cache} if cache else {}),
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        self.said = done.stdout + done.stderr
        return done.returncode == 0

    def tests_by_line(self, path: str, tests: Sequence[str]) -> dict[int, list[str]] | None:
        """Run test files; return which of their tests reach each line, None if any fails."""
        data = self.root / ".coverage"
        data.unlink(missing_ok=True)
        contexts = (f"--cov={module_of(path)}", "--cov-context=test", "--cov-report=")
        if not self.passes(*contexts, *tests):
            return None
        reached = CoverageData(str(data))
        reached.read()
        by_line: dict[int, list[str]] = {}
        for name in reached.measured_files():
            if name.endswith(f"/{path}"):
                for line, found in reached.contexts_by_lineno(name).items():
                    by_line[line] = sorted({one.split("|")[0] for one in found if one})
        return by_line

    def survives(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Return whether all tests pass with a mutant in place."""
        path = self.root / mutant.path
        source, seen = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(mutant.mutation.apply(source), encoding="utf-8")
        try:
            with tempfile.TemporaryDirectory() as cache:  # a change of simkit compiles all of it
                own = cache if mutant.path.startswith("simkit/") else None
                return self.passes(*tests, limit_s=self.limit_s, cache=own)
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # kernels are up to date


def survivors(copy: Copy, mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """Yield the mutants that no related test notices; tells on stderr what it does."""
    for path, some in groupby(mutants, key=lambda one: one.path):
        files = related_tests(path, ROOT / "tests")
        print(f"{path}: {' '.join(files) or 'no test'}", file=sys.stderr)
        reached = copy.tests_by_line(path, files) if files else {}
        if reached is None:
            sys.exit(f"{copy.said[-2000:]}\nerror: these tests fail without a mutation")
        for mutant in some:
            tests = reached.get(mutant.mutation.line) or files
            survives = not tests or copy.survives(mutant, tests)
            print(f"  {'survives' if survives else 'noticed '} {mutant}", file=sys.stderr)
            if survives:
                yield mutant


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="mutate all lines of these")
    parser.add_argument("--since", help="else lines changed since this revision")
    parser.add_argument("--sample", type=int, default=20, help="how many mutants (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="which of them (default 0)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for the tests of one")
    options = parser.parse_args()
    if options.files:
        paths = [str(Path(one).resolve().relative_to(ROOT)) for one in options.files]
        found = [mutant for path in paths for mutant in mutants_of(path, None)]
    else:
        changed = changed_lines(options.since or default_base())
        found = [mutant for path, lines in changed.items() for mutant in mutants_of(path, lines)]
    chosen = random.Random(options.seed).sample(found, min(options.sample, len(found)))
    chosen.sort(key=lambda one: (one.path, one.mutation.start))
    with tempfile.TemporaryDirectory() as folder:
        left = list(survivors(Copy(Path(folder), options.limit), chosen))
    for mutant in left:
        print(mutant)
    print(f"{len(left)} of {len(chosen)} mutants survive ({len(found)} are possible)")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
