"""Every command with any of its options, and with odd names of files."""

from __future__ import annotations

import os
from random import Random

from fuzz.cases import Case, Draft, Step
from fuzz.corpus import (
    MAPPED,
    job_logs,
    kueue_site,
    kueue_twin,
    opencost_answer,
    option_files,
    price_lists,
    scenario,
    traces,
)
from fuzz.options import options_of
from fuzz.values import PATHS, TEXTS

BASES: dict[str, tuple[tuple[str, ...], float]] = {
    "ingest": (("log.csv",), 2),
    "prices": (("p.csv",), 2),
    "characterize": (("lab.parquet",), 5),
    "bill": (("lab.parquet", "--price=1.29"), 3),
    "size": (("lab.parquet", "--target=p95_wait <= 1h"), 3),
    "forecast": (("lab.parquet",), 3),
    "pareto": (("lab.parquet",), 8),
    "plan": (("lab.parquet", "--on-demand=1.29"), 3),
    "sweep": (("lab.parquet",), 6),
    "simulate": (("lab.parquet",), 6),
    "compare": (("lab.parquet",), 6),
    "profile": (("profile.csv", "--slo=100ms"), 2),
    "share": (("shared.csv",), 2),
    "calibrate": (("log.csv",), 1),
    "whatif": (("log.csv", "--twin", "s.toml"), 1),
    "eta": (("log.csv", "--twin", "s.toml", "--gpus=4", "--limit=2h"), 1),
    "options": (("log.csv", "--twin", "s.toml", "--option=add-nodes 1"), 1),
    "waits": (("log.csv",), 1),
    "waste": (("log.csv",), 1),
    "report": (("lab.parquet",), 0.7),
    "diff": (("characterize1.json", "characterize2.json"), 3),
    "synth": ((), 4),
    "init": ((), 1),
    "run": (("s.toml",), 2),
    "list": (("formats",), 2),
    "demo": ((), 0.02),
}
"""Command -> its needs besides the required options, and its share."""
ON_KUEUE = {
    "calibrate": ("kueue.json",),
    "whatif": ("kueue.json", "--site=kueue.json", "--set=clusterqueue.team-a.nominalQuota=16"),
    "eta": ("kueue.json", "--twin", "kueue.toml", "--gpus=8", "--partition=team-a"),
    "waits": ("kueue.json",),
    "simulate": ("kueue.json", "--policy=kueue", "--site=kueue.json"),
    "compare": ("kueue.json", "--policy=kueue", "--policy=kai", "--site=kueue.json"),
}
"""Commands that also run on a dump of Kueue."""
LISTED = ("formats", "policies", "speedups", "methods", "baselines", "providers", "x", "")
FRESH = {
    "ingest": ("out.parquet",),
    "prices": ("out.parquet",),
    "synth": ("out.parquet",),
    "report": ("made",),
    "run": ("made",),
    "demo": ("made",),
}
FORMS = ("out.json", "out.md", "out.csv", "out.txt", "out.json", "out.md", "out.csv", "out.svg",
         "out.png", "out.parquet", "out.html")  # fmt: skip


def material() -> dict[str, bytes]:
    """Return the files that options and arguments name."""
    return {
        **traces(),
        **option_files(),
        "log.csv": job_logs()["seren"][1]["log.csv"],
        "mapped.csv": MAPPED,
        "p.csv": price_lists()["p.csv"][1],
        "s.toml": scenario("small_cluster"),
        "kueue.json": kueue_site(),
        "kueue.toml": kueue_twin(),
        "opencost.json": opencost_answer(),
    }


TO_FOLDERS = ("report", "run", "demo")
"""Commands whose output is a folder."""
CACHED = ("studies", "traces")
"""The folders that a cache makes in the folder it is given."""


def fresh(command: str, flag: str, rng: Random) -> str:
    """Return a valid name for the output of an option."""
    if flag == "--plot":
        return rng.choice(("plot.svg", "plot.svg", "plot.png"))
    if flag in ("--timeline", "--junit", "--save-model", "--cache", "--contracts-out", "--mail"):
        return {"--timeline": "time.parquet", "--junit": "junit.xml",
                "--save-model": "model2.json", "--cache": "cache",
                "--contracts-out": "book2.toml", "--mail": "texts"}[flag]  # fmt: skip
    return rng.choice(FRESH.get(command, FORMS))


def complete(case: Case, command: str, rng: Random) -> None:
    """Add the options that the command must have."""
    given = {one.partition("=")[0] for one in case.arguments}
    for option in options_of(command):
        if option.required and not given & set(option.names):
            value = fresh(command, option.flag, rng) if option.writes else "20"
            case.arguments += [option.flag, value]
            if option.writes:
                case.written |= names_of(value)
    if command == "synth" and not given & {"--like", "--preset", "--model"}:
        case.arguments += ["--like", "lab.parquet"]
    if command == "report" and "--formats" not in given:
        case.arguments += ["--formats", "md,json"]
    if command == "report" and "--study" not in given and "s.toml" not in given:
        case.arguments += ["--study", rng.choice(("characterize", "simulate"))]


def names_of(value: str) -> set[str]:
    """Return the files that a command may write for the output ``value``."""
    if not value:
        return set()
    name = os.path.normpath(value)
    return {name, str(name.removesuffix(".parquet")) + ".rejects.parquet"}


def options(rng: Random) -> Draft:
    """Draft a run of a command with options drawn from all it has."""
    command = rng.choices(list(BASES), [share for _, share in BASES.values()])[0]
    base = list(BASES[command][0])
    roll = rng.random()
    if "lab.parquet" in base and roll < 0.35:
        base = [rng.choice(sorted(traces()))]
    elif command in ON_KUEUE and roll > 0.75:
        base = list(ON_KUEUE[command])
    elif command == "report" and roll < 0.6:
        base = ["s.toml"]
    elif command == "characterize" and roll < 0.5:
        base.append(rng.choice(sorted(traces())))
    elif command == "list":
        base = [rng.choice(LISTED)]
    elif command == "diff":
        base = [rng.choice([one for one in sorted(option_files()) if one.endswith(".json")])
                for _ in range(2)] if roll < 0.3 else base  # fmt: skip
    case = Case("options", command, [command, *base], material())
    if command == "demo":
        case.written |= {"gpuplan-demo"}
    if command == "init":
        case.written |= {"scenario.toml"}

    def step(case: Case, rng: Random) -> str:
        option = rng.choice(options_of(command))
        given = option.draw(rng)
        if option.writes and option.takes_value:
            value = given[-1] if len(given) > 1 else given[0].partition("=")[2]
            if rng.random() < 0.7:
                value = fresh(command, option.flag, rng)
                given = [option.flag, value]
            case.written |= names_of(value)
            if option.flag == "--cache":  # perhaps a folder of other things too
                case.written |= {os.path.normpath(f"{value}/{kind}") for kind in CACHED}
        case.arguments += given
        return " ".join(given)[:100]

    steps: list[Step] = [step] * rng.choice((1, 1, 2, 2, 3, 4, 6))

    def finish(case: Case, rng: Random) -> None:
        complete(case, command, rng)
        if command in ("run", "report"):
            case.written |= {"made", "x", "../x"}
            if not any("cache" in one for one in case.arguments) and rng.random() < 0.5:
                case.arguments.append("--no-cache")
        if command in ("ingest", "prices"):
            case.account = "jobs" if command == "ingest" else "prices"

    return Draft(case, steps, finish)


def paths(rng: Random) -> Draft:
    """Draft a run of a command with odd names, links, pipes and folders for its files."""
    shares = {name: min(share, 1.0) for name, (_, share) in BASES.items()}
    command = rng.choices(list(shares), list(shares.values()))[0]
    case = Case("paths", command, [command, *BASES[command][0]], material(), folders=["in"])
    steps: list[Step] = [rng.choice((_rename, _odd_input, _odd_output, _odd_output, _word))]
    if rng.random() < 0.5:
        steps.append(rng.choice((_odd_output, _word, _odd_input)))

    def finish(case: Case, rng: Random) -> None:
        complete(case, command, rng)
        case.written |= {"made", "gpuplan-demo", "scenario.toml"}
        for word in case.arguments[1:]:  # any of them may have become the value of an option
            case.written |= names_of(word) - set(case.files)

    return Draft(case, steps, finish)


def _positions(case: Case) -> list[int]:
    return [i for i, one in enumerate(case.arguments) if one in case.files]


def _rename(case: Case, rng: Random) -> str:
    """Give an input an odd name, the same in the folder."""
    spots = _positions(case)
    if not spots:
        return "nothing: no input"
    at = rng.choice(spots)
    old = case.arguments[at]
    suffix = os.path.splitext(old)[1]
    stem = rng.choice(
        (
            "ü",
            "\udcff",
            "a b",
            "a\tb",
            "a\nb",
            "\x1b[31mx",
            "=1+1",
            "-x",
            "[x]",
            "'",
            '"',
            "%s",
            "x" * 200,
            "*",
            "日本語",
            "\u202ex",
            "a,b",
            "a=b",
            "a:b",
        )
    )
    name = f"{stem}{suffix}"
    case.files[name] = case.files[old]
    case.arguments[at] = f"./{name}" if name.startswith("-") else name
    return f"name {old} {name!r}"


def _odd_input(case: Case, rng: Random) -> str:
    """Make an input a folder, a link, a pipe, missing, or unreadable."""
    spots = _positions(case)
    if not spots:
        return "nothing: no input"
    at = rng.choice(spots)
    old = case.arguments[at]
    match rng.randrange(6):
        case 0:
            case.arguments[at] = name = rng.choice(PATHS)
            return f"read {name[:40]!r}"
        case 1:
            case.links["link"] = rng.choice((old, "link", "missing", ".", "in", "../../../.."))
            case.arguments[at] = "link"
            return f"read a link to {case.links['link']}"
        case 2:
            case.modes[old] = 0
            return f"forbid to read {old}"
        case 3:
            case.files[old] = b""
            return f"empty {old}"
        case 4:
            other = rng.choice(sorted(case.files))
            case.arguments[at] = other
            return f"read {other}"
        case _:
            case.arguments[at] = name = rng.choice(TEXTS)
            return f"read {name[:40]!r}"


def _odd_output(case: Case, rng: Random) -> str:
    """Write to an unusual path: an input, a link, a pipe, a folder, an invalid name."""
    command = case.arguments[0]
    writers = [one for one in options_of(command) if one.writes]
    if not writers:
        return "nothing: no output"
    option = rng.choice(writers)
    good = fresh(command, option.flag, rng)
    match rng.randrange(7):
        case 0:
            value = rng.choice(sorted(case.files))
            _give_up(case, value)
        case 1:
            value, case.links["to"] = "to", rng.choice(("missing", "to", "in", "lab.parquet"))
            _give_up(case, case.links["to"])
            if case.links["to"] == "in" and command in ("report", "run", "demo"):
                case.written.add("in")
        case 2:
            value = f"link-{good}"
            inside = f"in/new{os.path.splitext(good)[1]}"
            where = [good, inside, value, "in", *case.arguments[1:2]]
            case.links[value] = rng.choice([one for one in where if one])
            kept = set(case.files) | (set() if command in TO_FOLDERS else {"in"})
            case.written |= {os.path.normpath(case.links[value])} - kept
        case 3:
            value = f"pipe-{good}"
            case.fifos.append(value)
        case 4:
            value = f"in/{good}"
            case.written |= {"in"} if command in TO_FOLDERS else set()
        case 5:
            value = good
            case.old[good] = b"old"
        case _:
            value = rng.choice(PATHS)
    if value not in case.files:
        case.written |= names_of(value)
    case.arguments += [f"{option.flag}={value}"]
    return f"{option.flag} {value[:40]!r}"


def _give_up(case: Case, name: str) -> None:
    """Let a command write over a file, unless it reads that file."""
    reads_more = case.arguments[0] in ("run", "report")
    if name in case.files and not reads_more and not any(name in one for one in case.arguments):
        case.old[name] = case.files.pop(name)
        case.written.add(name)


def _word(case: Case, rng: Random) -> str:
    """Put a word anywhere on the command line."""
    word = rng.choice((*TEXTS, *PATHS, "--", "-o", "-q", "--output", "--nope", "-x", "--quiet=1"))
    at = rng.randint(1, len(case.arguments))
    case.arguments.insert(at, word)
    case.written |= names_of(word) - set(case.files)
    return f"argument {at}: {word[:40]!r}"
