"""Words that agree with what they stand by: ``1 row``, ``2 rows``, ``an openb log``."""

from __future__ import annotations

from collections.abc import Sequence

AN = ("a", "e", "i", "o", "u", "swf")


def counted(number: int, thing: str) -> str:
    """Return a number and what is counted, in the singular where it is one."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def a_log(format_name: str) -> str:
    """Return ``a sia log``, ``an openb log``; ``swf`` is said letter by letter."""
    return f"{'an' if format_name.startswith(AN) else 'a'} {format_name} log"


def shortened(text: str, most: int = 40) -> str:
    """Return a text from a file, cut where it is long."""
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first of many names as one text, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shortened(name) for name in names[:most]) + more
