"""Run cases: ``python -m fuzz -n 5000``, or one of them again: ``python -m fuzz --case 12345``.

The exit code is 1 where a rule is broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from fuzz.kinds import KINDS
from fuzz.pool import ROOT, Worker, new_base, result_of, run_all
from fuzz.privileges import found_rights
from fuzz.report import Tally, listed
from fuzz.run import Result

BUILD = ROOT / "build" / "fuzz"
MOST_SAVED = 60


def main() -> int:
    """Run the requested cases; return the exit code."""
    asked = _arguments()
    kernels = BUILD / "kernels"
    shutil.rmtree(BUILD / "failures", ignore_errors=True)
    for folder in (kernels, BUILD / "matplotlib", BUILD / "failures"):
        folder.mkdir(parents=True, exist_ok=True)
    rights = found_rights(ROOT)
    rights.give(kernels)
    rights.give(BUILD / "matplotlib")
    base = new_base()
    base.chmod(0o755)
    tally = Tally()
    workers: list[Worker] = []
    numbers = [asked.case] if asked.case is not None else range(asked.first, asked.first + asked.n)
    began = time.monotonic()
    try:
        for number in range(min(asked.workers, len(numbers))):
            workers.append(Worker(number, base / f"w{number}", kernels, rights))
            if number == 0:
                workers[0].wait()  # it compiles the kernels that the others load
        started = time.monotonic()

        def on_result(result: Result) -> None:
            if result.failures and result.signature not in tally.causes:
                text = listed({result.signature: [result]})
                print(f"a broken rule: {text}", file=sys.stderr, flush=True)
            tally.add(result)
            if tally.cases % 500 == 0:
                rate = tally.cases / (time.monotonic() - started)
                said = f"{tally.cases:,} of {len(numbers):,} cases, {rate:.0f} a second"
                print(f"{said}, {tally.failed.total():,} failed", file=sys.stderr, flush=True)

        run_all(iter(numbers), seed=asked.seed, kind=asked.kind, workers=workers,
                on_result=on_result)  # fmt: skip
        took = time.monotonic() - started
        _smaller(tally, workers[0], asked.seed, asked.kind)
        saved = _saved(tally, workers[0], asked.seed, asked.kind)
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(base, ignore_errors=True)
    print(f"{tally.cases:,} cases of seed {asked.seed} in {took:,.0f} s on {len(workers)} workers "
          f"(after {started - began:,.0f} s of start), {tally.cpu_s:,.0f} s of processor time; "
          f"slowest: {', '.join(f'{n} ({s:.1f} s)' for s, n in tally.slowest[:3])}\n")  # fmt: skip
    print(tally.table())
    (BUILD / "summary.md").write_text(tally.table() + "\n", encoding="utf-8")
    if tally.causes:
        text = listed(tally.causes)
        (BUILD / "failures.txt").write_text(text + "\n", encoding="utf-8", errors="replace")
        print(f"\n{len(tally.causes)} causes of failures, most frequent first\n\n{text}")
        again = (
            f"make fuzz FUZZ_SEED={asked.seed}{f' FUZZ_KIND={asked.kind!r}' if asked.kind else ''}"
        )
        print(f"\nrun one again: {again} FUZZ_CASE=NUMBER; files: {saved}")
    elif asked.case is not None:
        print("no rule is broken")
    if not rights.drops and os.geteuid() == 0:
        print("\nnote: run as root without setpriv, so read-only folders were not tried")
    return 1 if tally.causes else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("-n", type=int, default=5_000, help="cases to run")
    parser.add_argument("--seed", type=int, default=1, help="seed of all cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, default=None, help="run this case alone")
    parser.add_argument("--kind", choices=["", *KINDS], default="", help="fuzz this alone")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args()


def _smaller(tally: Tally, worker: Worker, seed: int, kind: str) -> None:
    """Replace the first result of each cause by one with the fewest mutations that show it."""
    for signature, results in list(tally.causes.items())[:MOST_SAVED]:
        first = min(results, key=lambda result: (len(result.notes), result.number))
        keep = [int(note.partition(":")[0]) for note in first.notes]
        best = first
        for position in list(keep) if not first.code.startswith(("hang", "died")) else ():
            fewer = [one for one in keep if one != position]
            tried = result_of(worker, seed, first.number, fewer, kind)
            if tried.signature == signature:
                keep, best = fewer, tried
        results.insert(0, best)
        results.remove(first)


def _saved(tally: Tally, worker: Worker, seed: int, kind: str) -> Path:
    """Copy the files of the first case of each cause to a folder, with its command line."""
    folder = BUILD / "failures"
    for results in list(tally.causes.values())[:MOST_SAVED]:
        best = min(results, key=lambda result: (len(result.notes), result.number))
        keep = [int(note.partition(":")[0]) for note in best.notes]
        answer = worker.ask(seed=seed, number=best.number, keep=keep, kind=kind, save=True)
        target = folder / str(best.number)
        if "folder" in answer:
            shutil.copytree(answer["folder"], target, symlinks=True, dirs_exist_ok=True,
                            ignore=_only_files)  # fmt: skip
        target.mkdir(exist_ok=True)
        text = f"{best.command}\n\n" + "\n".join(f"# {note}" for note in best.notes)
        (target / "command.txt").write_text(text + "\n", encoding="utf-8", errors="replace")
    return folder


def _only_files(folder: str, names: list[str]) -> list[str]:
    """Return the files not to copy: pipes, which would never end."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if path.is_fifo() or name == ".ballast"]


if __name__ == "__main__":
    sys.exit(main())
