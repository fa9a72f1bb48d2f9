"""Read options that give a number per GPU type: ``A100=2.5``."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.analysis.base.errors import UsageError


def parse_by_type(
    texts: Sequence[str], option: str, default: float | None = None
) -> dict[str, float]:
    """Return a number above 0 by GPU type from ``A100=2.5`` or ``A100=2.5,T4=1``.

    Args:
        texts: the values of the option.
        option: its name, for the messages.
        default: the number of a type without one; None where each needs one.

    Raises:
        UsageError: a text is not such a pair, a number is not above 0, or a type is repeated.
    """
    found: dict[str, float] = {}
    for text in _parts(texts):
        name, equals, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number) if equals else default
        except ValueError:
            value = None
        if not name or value is None or not 0 < value < float("inf"):
            raise UsageError(f"{option} {text!r}: expected TYPE=NUMBER above 0, such as A100=2.5")
        once(found, name, option)
        found[name] = value
    return found


def parse_usd(texts: Sequence[str], option: str) -> dict[str, float]:
    """Return dollars per GPU-hour from ``1.29``, ``A100=2.5`` and ``A100=2.5,T4=1``.

    The empty name is every type.

    Raises:
        UsageError: a text is not such a price, or a type is repeated.
    """
    found: dict[str, float] = {}
    for text in _parts(texts):
        name, _, number = (part.strip() for part in text.rpartition("="))
        try:
            usd = float(number)
        except ValueError:
            usd = -1.0
        if not 0 < usd < float("inf") or "=" in name or ("=" in text and not name):
            raise UsageError(
                f"{option} {text!r}: expected dollars per GPU-hour above 0, such as 1.29, or "
                "TYPE=USD such as A100=2.5,T4=1"
            )
        once(found, name, option)
        found[name] = usd
    return found


def _parts(texts: Sequence[str]) -> list[str]:
    """Return what is between commas; a text of commas and blanks only stays as it is."""
    return [part for text in texts for part in [p for p in text.split(",") if p.strip()] or [text]]


def once(found: dict[str, float] | dict[str, int], name: str, option: str) -> None:
    """Raise `UsageError` where an option names something twice."""
    if name in found:
        raise UsageError(f"{option}: {name!r} is given twice" if name else f"{option}: given twice")
