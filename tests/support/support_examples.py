"""Runs what a page of the documentation shows and tells whether it prints what is written there.

A fence ``console`` is a session in a shell: a line after ``$ `` is a command, with a backslash at
its end it goes on; what follows is what it prints, on standard output and standard error. A line
``...`` stands for any lines. A fence with ``title="NAME"`` is a file, written when the page comes
to it. A page runs from top to bottom in one folder, which begins with a copy of sample_traces.
``pip install --quiet ./FOLDER`` installs a package that the page wrote, for this page alone.

    python -m tests.support.support_examples [PAGE...]

writes the output anew where it differs, and the pictures of docs/images that the pages draw.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

# Run as a program and imported by the tests
if __package__:
    from tests.support.support_within import run_script
else:
    from support_within import run_script

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / n for n in ("index.md", "tutorial.md", "gates.md", "library.md", "twin.md")),
    ROOT / "docs" / "options.md",
    ROOT / "docs" / "waste.md",
    *(ROOT / "docs" / n for n in ("extend.md", "dilu.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]

FENCE = re.compile(r"^```(?P<kind>\w*)(?P<rest>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
TITLE = re.compile(r'title="([^"]+)"')
QUOTED = re.compile(r"""'[^']*'|"[^"$`]*\"""")
INSTALL = re.compile(r"pip install --quiet \./(\S+)")
SITE = "installed-packages"
FOR_A_SHELL = set("|&;<>*?$`~")
ELISION = "..."
SERVICES = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI", "SOURCE_DATE_EPOCH", "COLUMNS")


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page with the output written below it.

    Attributes:
        line: where it stands, counted from 1.
        command: what a shell gets; may have several lines.
        written: the output, without empty lines around it.
    """

    line: int
    command: str
    written: list[str]


def fences(text: str) -> Iterator[tuple[re.Match[str], list[Step]]]:
    """Yield each fence of a page with its commands; only those of ``console`` have any."""
    for fence in FENCE.finditer(text):
        body = fence["body"].splitlines() if fence["kind"] == "console" else []
        first = text.count("\n", 0, fence.start("body")) + 1
        starts = [i for i, line in enumerate(body) if line.startswith("$ ")]
        steps = []
        for start, end in pairwise([*starts, len(body)]):
            last = start
            while body[last].endswith("\\"):
                last += 1
            command = "\n".join(body[start : last + 1]).removeprefix("$ ")
            steps.append(Step(first + start, command, trimmed(body[last + 1 : end])))
        yield fence, steps


def trimmed(lines: list[str]) -> list[str]:
    """Return lines without spaces at their ends and without empty lines around them."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").splitlines()


def agrees(printed: list[str], written: list[str]) -> bool:
    """Whether the output is what is written, where ``...`` stands for any lines."""
    parts = [r"(?:.*\n)*" if line == ELISION else re.escape(line) + r"\n" for line in written]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in printed)) is not None


def renewed(printed: list[str], written: list[str]) -> list[str]:
    """Return the output to write: the parts that stand between the ``...``, as they print now.

    The first and last part keep their number of lines; one between is looked for by its first line,
    whatever its digits are. Where one is not found, all that is printed is returned.
    """
    parts: list[list[str]] = [[]]
    for line in written:
        if line == ELISION:
            parts.append([])
        else:
            parts[-1].append(line)
    at, output = len(parts[0]), printed[: len(parts[0])]
    end = len(printed) - len(parts[-1])
    for part in parts[1:-1]:
        found = (i for i in range(at, end) if shape(printed[i]) == shape(part[0]))
        start = next(found, None) if part else None
        if start is None:
            return printed
        at = start + len(part)
        output += [ELISION, *printed[start:at]]
    if len(parts) == 1 or at > end:
        return printed
    return [*output, ELISION, *printed[end:]]


def shape(line: str) -> str:
    """Return a line without what may change from run to run: its digits and its spaces."""
    return re.sub(r"[\d.,\s]+", "", line)


def install(package: Path) -> None:
    """Install a package of plain files in this folder, as pip would, without a network."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = Path(SITE).absolute()
    for folder in (path.parent for path in package.glob("*/__init__.py")):
        shutil.copytree(folder, site / folder.name)
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.environ["PYTHONPATH"] = str(site)


def run(command: str) -> list[str]:
    """Return what a command prints; ``gpuplan`` alone runs in this process, which is faster."""
    command = command.replace("\\\n", " ")
    if (package := INSTALL.fullmatch(command)) is not None:
        install(Path(package[1]))
        return []
    is_alone = command.startswith("gpuplan ") and not FOR_A_SHELL & set(QUOTED.sub("", command))
    sees_all = SITE not in os.environ.get("PYTHONPATH", "")  # a package is for new processes
    if is_alone and sees_all:
        printed = _in_process(shlex.split(command)[1:])
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path}
        if sees_all:
            _, printed, _ = run_script(command, Path.cwd(), env, together=True)
        else:
            both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            shell = ["bash", "-c", command]
            printed = subprocess.run(shell, **both, env=env, check=False).stdout.decode()
    lines = [line for line in printed.splitlines() if not line.startswith("compiling ")]
    return trimmed(lines)


def _in_process(arguments: list[str]) -> str:
    from gpuplan.cli.app.main import main

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(arguments)
    printed.seek(0)
    return printed.read()


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[None]:
    """Work in a folder with the sample traces, with a cache of its own and no CI service."""
    shutil.copytree(ROOT / "sample_traces", folder / "sample_traces")
    before = dict(os.environ)
    for name in SERVICES:
        os.environ.pop(name, None)
    os.environ["XDG_CACHE_HOME"] = str(folder / ".cache")
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def play(text: str, folder: Path) -> Iterator[tuple[Step, list[str]]]:
    """Run a page in a folder; yield each command with what it printed."""
    with bench(folder):
        for fence, steps in fences(text):
            title = TITLE.search(fence["rest"])
            if title:
                Path(title[1]).parent.mkdir(parents=True, exist_ok=True)
                Path(title[1]).write_text(fence["body"], encoding="utf-8")
            for step in steps:
                yield step, run(step.command)


def renew(page: Path) -> int:
    """Write a page with the output of now; return how many commands printed something else."""
    text = page.read_text(encoding="utf-8")
    lines, shift, differing = text.splitlines(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for step, printed in play(text, Path(folder)):
            if agrees(printed, step.written):
                continue
            differing += 1
            begin = end = shift + step.line + step.command.count("\n")  # below the command
            while not lines[end].startswith(("$ ", "```")):
                end += 1
            more = [""] if lines[end].startswith("$ ") else []
            output = [*renewed(printed, step.written), *more]
            lines[begin:end] = output
            shift += len(output) - (end - begin)
        for picture in IMAGES.iterdir():
            drawn = Path(folder, picture.name)
            if drawn.exists():
                shutil.copyfile(drawn, picture)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return differing


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        print(f"{name}: {renew(Path(name))} commands print something else now")
