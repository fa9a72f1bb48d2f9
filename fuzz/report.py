"""What came out: a table of outcomes, and the failures by their cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from fuzz.kinds import WEIGHTS
from fuzz.run import Result

MEANINGS = {
    "0": "done",
    "1": "gate tripped",
    "2": "usage",
    "3": "unusable input or output",
    "4": "infeasible",
}


@dataclass
class Tally:
    """Counts results as they come.

    Attributes:
        codes: kind -> exit code -> cases.
        failed: kind -> cases that broke a rule.
        causes: signature -> the results with it.
        cpu_s: processor time of all cases.
    """

    codes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: Counter[str] = field(default_factory=Counter)
    causes: dict[str, list[Result]] = field(default_factory=lambda: defaultdict(list))
    cpu_s: float = 0.0
    slowest: list[tuple[float, int]] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count a result."""
        self.codes[result.kind][result.code] += 1
        self.cpu_s += result.cpu_s
        self.slowest = sorted([*self.slowest, (result.cpu_s, result.number)], reverse=True)[:5]
        if result.failures:
            self.failed[result.kind] += 1
            self.causes[result.signature].append(result)

    @property
    def cases(self) -> int:
        """Return how many results were counted."""
        return sum(counted.total() for counted in self.codes.values())

    def table(self) -> str:
        """Return outcomes by kind and exit code, in Markdown."""
        codes = sorted({code for counted in self.codes.values() for code in counted}, key=_order)
        heads = [f"{code} ({MEANINGS[code]})" if code in MEANINGS else code for code in codes]
        lines = [
            f"| what is fuzzed | cases | {' | '.join(heads)} | broken rules |",
            "|---|" + "--:|" * (len(codes) + 2),
        ]
        total: Counter[str] = Counter()
        for kind in (name for name in WEIGHTS if name in self.codes):
            counted = self.codes[kind]
            total += counted
            lines.append(_row(kind, counted, codes, self.failed[kind]))
        lines.append(_row("all", total, codes, self.failed.total()))
        return "\n".join(lines)


def _row(name: str, counted: Counter[str], codes: Iterable[str], failed: int) -> str:
    cells = " | ".join(f"{counted[code]:,}" for code in codes)
    return f"| {name} | {counted.total():,} | {cells} | {failed:,} |"


def _order(code: str) -> tuple[bool, int, str]:
    try:
        return False, abs(int(code)), code
    except ValueError:
        return True, 0, code


def listed(causes: dict[str, list[Result]]) -> str:
    """Return the failures by cause, the most frequent first."""
    lines = []
    for signature, results in sorted(causes.items(), key=lambda item: -len(item[1])):
        first = min(results, key=lambda result: (len(result.notes), result.number))
        rule, how = first.failures[0]
        lines += [
            f"{len(results)} x {signature}",
            f"    case {first.number} ({first.kind}, {first.label}): {rule}: {how[:300]!r}",
            f"    {first.command[:300]}",
            *(f"      {note[:150]}" for note in first.notes),
        ]
    return "\n".join(lines)
