"""What a policy lets the user set, described so that a front end can read it from text."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = {"duration": "s", "usd": "USD"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter of a policy.

    Attributes:
        kind: ``duration`` (seconds), ``usd`` (US dollars), ``number``, ``numbers`` (a tuple of
            them), ``count`` (a whole number), ``flag`` (a bool), ``text`` or
            ``choice``.
        about: what it is, for people.
        choices: the words a ``choice`` may have.
        unlimited: whether ``none`` stands for no limit (for a duration: ``inf``).
    """

    kind: str
    about: str
    choices: tuple[str, ...] = ()
    unlimited: bool = False

    @property
    def unit(self) -> str | None:
        """The unit of its values; None for plain numbers and words."""
        return UNITS.get(self.kind)
