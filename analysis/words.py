"""Words that agree with what they stand by: ``1 row``, ``2 rows``, ``an openb log``."""

from __future__ import annotations

AN = ("a", "e", "i", "o", "u", "swf")


def counted(number: int, thing: str) -> str:
    """Return a number and what is counted, in the singular where it is one."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def a_log(format_name: str) -> str:
    """Return ``a sia log``, ``an openb log``; ``swf`` is said letter by letter."""
    return f"{'an' if format_name.startswith(AN) else 'a'} {format_name} log"
