"""Damaged scenarios for gpuplan run and report."""

from __future__ import annotations

import os
import tomllib
from random import Random

from fuzz.cases import Case, Draft, Step
from fuzz.corpus import SCENARIO_LOG, SCENARIO_SYNTH, STUDIES, scenario
from fuzz.kinds.commands import material
from fuzz.mutate import mutate
from fuzz.options import VALID, options_of

VALUES = (
    *(b"", b'""', b"-1", b"0", b"1e300", b"nan", b"inf", b"-inf", b"true", b"[]", b"{}", b"[[]]"),
    *(
        b"9223372036854775808",
        b"1979-05-27T07:32:00Z",
        b"1979-05-27",
        b"07:32:00",
        b"'x'",
        b"[1, 'a']",
    ),
    *(b'"\\u0000"', b'"\\ud800"', b'"\\U0001F600"', b'"\x1b[31m"', b"0x7f", b"1_000", b"+1", b"x"),
    *(b"[" * 300 + b"]" * 300, b"[" * 5_000 + b"]" * 5_000, b'"' + b"y" * 5_000 + b'"', b"{a = 1}"),
    *(b'"builtin"', b'"missing.parquet"', b'"power:0.8"', b'["a", "b"]', b'"../x"', b"0.5", b"7"),
)
SECTIONS = (
    b"[workload]\n",
    b"[study.x]\n",
    b"[study.characterize]\n",
    b"[a.b.c]\n",
    b"[[study]]\n",
    b"[policies.fifo]\npreemptive = true\n",
    b"[clouds]\ncapacity = 4\n",
    b"[output]\ndir = 'x'\n",
    b"[gates]\nfail_if = 'x'\n",
    b"[study.sweep]\nthreshold = '60'\n",
    b"x.y.z = 1\n",
    b"[]\n",
    b"[study.pareto]\n[study.pareto]\n",
    b"[study.run]\ncommand = 'run'\n",
    b"[" + b"a." * 2_000 + b"a]\n",
    b"[study.'\\u001b']\n",
    b"[study.ingest]\ncommand = 'ingest'\n",
    b"[study.list]\ncommand='list'\n",
)


def scenarios(rng: Random) -> Draft:
    """Draft a run of a damaged scenario."""
    several = list(STUDIES) if rng.random() < 0.15 else [rng.choice(list(STUDIES))]
    text = rng.choice((scenario(*several), scenario(*several), SCENARIO_LOG, SCENARIO_SYNTH))
    files = {**material(), "s.toml": text}
    command = "run" if rng.random() < 0.85 else "report"
    case = Case("scenarios", command, [command, "s.toml"], files)
    case.written |= {"made", "x", "../x", "report", "gpuplan-report"}

    def step(case: Case, rng: Random) -> str:
        case.files["s.toml"], what = _damaged(case.files["s.toml"], rng)
        return what

    def option(case: Case, rng: Random) -> str:
        chosen = [one for one in options_of(command) if not one.writes]
        given = rng.choice(chosen).draw(rng)
        case.arguments += given
        return " ".join(given)[:100]

    steps: list[Step] = [step] * rng.choice((1, 1, 2, 3))
    if rng.random() < 0.25:
        steps.append(option)

    def finish(case: Case, rng: Random) -> None:
        if command == "report":
            case.arguments += ["-o", "made", "--formats", "md,json"]
        elif rng.random() < 0.4:
            case.arguments.append("--list")
        if rng.random() < 0.5:
            case.arguments += rng.choice((["--no-cache"], ["--cache", "cache"]))
            case.written.add("cache")
        if (folder := _output_folder(case.files["s.toml"])) is not None:
            case.written.add(os.path.normpath(folder))

    return Draft(case, steps, finish)


def _output_folder(text: bytes) -> str | None:
    """Return the folder that a damaged scenario still names for its documents."""
    try:
        folder = tomllib.loads(text.decode("utf-8-sig"))["output"]["dir"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return folder if isinstance(folder, str) and folder else None


def _damaged(text: bytes, rng: Random) -> tuple[bytes, str]:
    """Return a scenario with another value, key or section, or with damaged bytes."""
    lines = text.split(b"\n")
    keys = [i for i, line in enumerate(lines) if b" = " in line]
    roll = rng.random()
    if roll < 0.5 and keys:
        at = rng.choice(keys)
        key = lines[at].split(b" = ")[0]
        flag = f"--{key.decode(errors='replace').replace('_', '-')}"
        known = [f'"{value}"'.encode("utf-8", "replace") for value in VALID.get(flag, ())]
        value = rng.choice((*VALUES, *known))
        lines[at] = key + b" = " + value
        return b"\n".join(lines), f"{lines[at][:60]!r}"
    if roll < 0.65:
        at = rng.randint(0, len(lines))
        section = rng.choice(SECTIONS)
        lines.insert(at, section.rstrip(b"\n"))
        return b"\n".join(lines), f"line {at + 1}: {section[:40]!r}"
    if roll < 0.75 and keys:
        at = rng.choice(keys)
        lines[at] = rng.choice((b"x", b"''", b"a.b", b"study", b'"\\u001b"', b"top", b"where")) + (
            b" = " + lines[at].split(b" = ", 1)[1]
        )
        return b"\n".join(lines), f"{lines[at][:60]!r}"
    return mutate(text, rng)
