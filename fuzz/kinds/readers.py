"""Damaged job logs and price lists of every format, packed in every way."""

from __future__ import annotations

from random import Random

from fuzz.cases import Case, Draft, Step
from fuzz.corpus import job_logs, price_lists
from fuzz.mutate import mutate
from fuzz.options import options_of
from fuzz.packing import packed

ONE_ROW_PER_LINE = ("seren", "kalos", "philly_csv", "helios", "sia", "openb", "tiresias")
"""Logs without quotes, steps, comments or parts, whose lines can be counted."""
READERS = {
    "characterize": ("characterize", "out.parquet"),
    "pareto": ("pareto", "out.parquet", "--no-replay"),
    "sweep": ("sweep", "out.parquet", "--threshold", "60,600", "--resamples", "0"),
    "simulate": ("simulate", "out.parquet", "--policy", "fifo"),
    "compare": ("compare", "out.parquet", "--policy", "allpass", "--policy", "srtf"),
    "synth": ("synth", "--like", "out.parquet", "--jobs", "5", "-o", "drawn.parquet"),
    "ingest": ("ingest", "out.parquet", "-o", "again.parquet"),
}


def readers(rng: Random) -> Draft:
    """Draft a run of gpuplan ingest on a damaged log."""
    name = rng.choice(sorted(job_logs()))
    source_format, files, more = job_logs()[name]
    folder = name == "pai_tables"
    tables = [option for option in more if option in files]
    names = ["pai"] if folder else [file for file in files if file not in tables]
    case = Case("readers", name, list(more), dict(files), account="jobs")
    case.sources = names
    forced = rng.random() < 0.4
    if forced:
        case.arguments += ["--source-format", source_format]
    draft = Draft(case, _mutations(rng, sorted(files)))
    if not folder:
        draft.steps += _packings(rng)
    draft.steps += _options(rng, "ingest")

    def finish(case: Case, rng: Random) -> None:
        plain = [*case.files] == [*files] and case.sources == names and len(case.sources) == 1
        if name in ONE_ROW_PER_LINE and forced and plain:
            case.rows = _rows(files[names[0]], case.files[names[0]], case)
        _complete(case, rng, "ingest")
        if rng.random() < 0.25:
            case.read_back = list(READERS[rng.choice(["characterize"] * 4 + sorted(READERS))])

    draft.finish = finish
    return draft


def prices(rng: Random) -> Draft:
    """Draft a run of gpuplan prices on a damaged price list."""
    name = rng.choice(sorted(price_lists()))
    file, data = price_lists()[name]
    case = Case("prices", name, ["--as-of", "2026-01-05"], {file: data}, account="prices")
    case.sources = [file]
    steps = [*_mutations(rng, [file]), *_packings(rng), *_options(rng, "prices")]

    def finish(case: Case, rng: Random) -> None:
        _complete(case, rng, "prices")
        if rng.random() < 0.2:
            lab = "lab.parquet"
            from fuzz.corpus import traces

            case.files[lab] = traces()[lab]
            case.read_back = ["characterize", lab, "--prices", "out.parquet", "--gpu", "L4"]

    return Draft(case, steps, finish)


def _mutations(rng: Random, names: list[str]) -> list[Step]:
    def step(case: Case, rng: Random) -> str:
        name = rng.choice(names)
        other = job_logs()[rng.choice(sorted(job_logs()))][1]
        spliced = rng.choice(sorted(other.values()))
        case.files[name], what = mutate(case.files[name], rng, spliced)
        return f"{name}: {what}"

    return [step] * rng.choice((0, 1, 1, 1, 2, 2, 3, 4))


def _packings(rng: Random) -> list[Step]:
    steps: list[Step] = []
    roll = rng.random()
    if roll < 0.25:
        steps.append(_pack)
        if rng.random() < 0.4:
            steps.append(_damage_packed)
        if rng.random() < 0.1:
            steps.append(_pack)
    elif roll < 0.33:
        steps.append(_into_folder)
    elif roll < 0.38:
        steps.append(_twice)
    if rng.random() < 0.06:
        steps.append(_on_stdin)
    return steps


def _pack(case: Case, rng: Random) -> str:
    old = case.sources[0]
    name, data, what = packed(old, case.files.pop(old), rng)
    case.files[name] = data
    case.sources = [name, *case.sources[1:]]
    return what


def _damage_packed(case: Case, rng: Random) -> str:
    from fuzz.mutate import mutate_bytes

    name = case.sources[0]
    case.files[name], what = mutate_bytes(case.files[name], rng)
    return f"{name}: {what}"


def _into_folder(case: Case, rng: Random) -> str:
    name = case.sources[0]
    case.files[f"in/{name}"] = case.files.pop(name)
    if rng.random() < 0.5:
        beside = rng.choice(("README.md", "empty.csv", ".hidden.csv", "sub/log.csv", "\udcff.csv"))
        case.files[f"in/{beside}"] = rng.choice((b"", b"# notes\n", case.files[f"in/{name}"]))
    if rng.random() < 0.2:
        case.links["in/link.csv"] = rng.choice(("missing", ".", "link.csv", name))
    case.sources = ["in", *case.sources[1:]]
    return "put it in a folder"


def _twice(case: Case, rng: Random) -> str:
    name = case.sources[0]
    if rng.random() < 0.3:
        case.sources.append(name)
        return "name it twice"
    case.files[f"2{name}"] = case.files[name]
    case.sources.append(f"2{name}")
    return "take a second file with the same rows"


def _on_stdin(case: Case, rng: Random) -> str:
    name = case.sources[0]
    if name == "in":
        return "nothing: a folder cannot be piped"
    case.stdin = case.files.pop(name)
    case.sources = ["-", *case.sources[1:]]
    return "pipe it"


def _options(rng: Random, command: str) -> list[Step]:
    chosen = [one for one in options_of(command) if one.flag not in ("--output", "--output-format")]

    rare = ("--map", "--throughputs", "--worker-type", "--source-format")
    shares = [0.2 if one.flag in rare else 1.0 for one in chosen]

    def step(case: Case, rng: Random) -> str:
        option = rng.choices(chosen, shares)[0]
        given = option.draw(rng)
        case.arguments += given
        if option.writes and option.takes_value:
            case.written.add(given[-1].partition("=")[2] or given[-1])
        return " ".join(given)[:100]

    return [step] * rng.choice((0, 0, 0, 0, 0, 1, 2))


def _complete(case: Case, rng: Random, command: str) -> None:
    """Put the command line together; sometimes an older output is there."""
    arguments = [command, *case.sources, "-o", "out.parquet", *case.arguments]
    if rng.random() < 0.75 and not any("--max-rejects" in one for one in arguments):
        arguments += ["--max-rejects", "100%"]
    if rng.random() < 0.4 and not any("--output-format" in one for one in arguments):
        arguments += ["--output-format", rng.choice(("json", "json", "md", "csv"))]
    case.arguments = arguments
    case.written |= {"out.parquet", "out.rejects.parquet"}
    if rng.random() < 0.2:
        case.old["out.parquet"] = b"PAR1 an older output"


def _rows(whole: bytes, data: bytes, case: Case) -> int | None:
    """Return how many rows a log of one row per line holds; None where that is not plain."""
    if b'"' in data or b"\r" in data or b"\0" in data:
        return None
    if data.split(b"\n", 1)[0] != whole.split(b"\n", 1)[0] or not data.isascii():
        return None
    return sum(bool(line.strip()) for line in data.split(b"\n")) - 1
