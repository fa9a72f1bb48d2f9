"""A case: files, a command line, allowed outputs; and how one is built from its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from fuzz.rng import rng_of


@dataclass
class Case:
    """One run of the command line in a folder of its own.

    Attributes:
        kind: a key of `fuzz.kinds.KINDS`.
        label: the format, command or situation, for the report.
        arguments: the command line after ``gpuplan``.
        files: name -> bytes, below the folder of the case.
        sources: files that a reader reads, before they are put in ``arguments``.
        folders: empty folders.
        fifos: named pipes.
        links: name -> where it points.
        modes: name -> permissions, set after everything is written.
        stdin: what standard input holds.
        written: files and folders that the command may write; all others must stay as they are.
        old: those of ``written`` that are there before, and must stay where the command fails.
        account: ``jobs`` or ``prices`` where the command ingests and must account for every row.
        rows: rows in the source, counted independently; None if unknown.
        read_back: a command line to run on the output after success; empty for none.
        disk_kib: free space of the disk that the case writes to; None for no limit.
        signal: its name, sent to a process of its own; empty for none.
        delay_s: seconds from the start of the process to the signal.
        notes: the steps that were taken, in words.
    """

    kind: str
    label: str
    arguments: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    fifos: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    stdin: bytes = b""
    written: set[str] = field(default_factory=set)
    old: dict[str, bytes] = field(default_factory=dict)
    account: str = ""
    rows: int | None = None
    read_back: list[str] = field(default_factory=list)
    disk_kib: int | None = None
    signal: str = ""
    delay_s: float = 0.0
    notes: list[str] = field(default_factory=list)


Step = Callable[[Case, Random], str]
"""Changes a case and returns a short description of the change."""


@dataclass
class Draft:
    """A case before its mutations, the mutations, and what completes it after them."""

    case: Case
    steps: list[Step] = field(default_factory=list)
    finish: Callable[[Case, Random], None] | None = None


def build(seed: int, number: int, keep: frozenset[int] | None = None, kind: str = "") -> Case:
    """Return case ``number`` of a seed.

    Args:
        seed: of the whole run.
        number: of the case.
        keep: the mutations to make, by position; None for all.
        kind: what to fuzz; empty to draw it by the weights of the kinds.
    """
    from fuzz.kinds import KINDS, WEIGHTS

    rng = rng_of(seed, number)
    drawn = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    draft = KINDS[kind or drawn](rng)
    for position, step in enumerate(draft.steps):
        if keep is None or position in keep:
            what = step(draft.case, rng_of(seed, number, position))
            draft.case.notes.append(f"{position}: {what}")
    if draft.finish is not None:
        draft.finish(draft.case, rng_of(seed, number, "finish"))
    return draft.case


def steps_of(seed: int, number: int, kind: str = "") -> int:
    """Return how many mutations a case has."""
    from fuzz.kinds import KINDS, WEIGHTS

    rng = rng_of(seed, number)
    drawn = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return len(KINDS[kind or drawn](rng).steps)
