"""One look per policy, the same in every picture.

There are fewer colors that color-blind readers can distinguish than policies: those that rent GPUs
have solid lines, those of one cluster dashed or dotted ones, those that choose widths or
plan ahead long dashes, and those that lend GPUs as spot dashes with one dot (GFS) or two.
Baselines of a frontier have markers too, and kinds of GPUs a colour and a shade.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

from gpuplan.cli.figures.style import COLOURS, CYCLE, INK, SOFT

Dash = tuple[int, tuple[float, ...]]
SOLID: Dash = (0, ())
DASHED: Dash = (0, (5, 2))
DOTTED: Dash = (0, (1, 1.4))
LONG: Dash = (0, (8, 1.5))
LENT: Dash = (0, (7, 1, 1, 1))
MIXED: Dash = (0, (9, 1.5, 3, 1.5))
BESIDE_LENT: Dash = (0, (4, 1, 1, 1, 1, 1))
OTHER: Dash = (0, (3, 1, 3, 4))
AGAIN: tuple[Dash, ...] = ((0, (6, 2, 1.5, 2)), (0, (10, 3)), (0, (6, 2, 1.5, 2, 1.5, 2)))
"""Dashes of a policy's second, third, ... use; no policy has them itself."""


class Look(NamedTuple):
    """Colour and dash of a line."""

    colour: str
    dash: Dash

    def line(self) -> dict[str, Any]:
        """Return it as arguments of `Axes.plot`."""
        return {"color": self.colour, "linestyle": self.dash, "zorder": 2 + self._gaps()}

    def _gaps(self) -> float:
        """Return the share of gaps in the line; lines with gaps are drawn over solid ones."""
        pattern = self.dash[1]
        return sum(pattern[1::2]) / sum(pattern) if pattern else 0.0


LOOKS: dict[str, Look] = {
    "allpass": Look(COLOURS["green"], SOLID),
    "fixed-threshold": Look(COLOURS["blue"], SOLID),
    "serverless-only": Look(COLOURS["orange"], SOLID),
    "serverful-only": Look(COLOURS["sky"], SOLID),
    "hpa": Look(COLOURS["purple"], SOLID),
    "fifo": Look(INK, DASHED),
    "first-fit": Look(COLOURS["forest"], DOTTED),
    "smallest": Look(SOFT, DASHED),
    "sjf": Look(COLOURS["yellow"], DASHED),
    "srtf": Look(COLOURS["crimson"], DASHED),
    "srsf": Look(COLOURS["wine"], DOTTED),
    "edf": Look(COLOURS["indigo"], DASHED),
    "las": Look(COLOURS["olive"], DASHED),
    "2d-las": Look(COLOURS["brown"], DOTTED),
    "gittins": Look(COLOURS["violet"], DOTTED),
    "easy": Look(INK, LONG),
    "conservative": Look(COLOURS["forest"], LONG),
    "recorded": Look(SOFT, LONG),
    "fixed-width": Look(COLOURS["brown"], LONG),
    "equal": Look(COLOURS["yellow"], LONG),
    "pollux": Look(COLOURS["indigo"], LONG),
    "pollux-autoscaling": Look(COLOURS["olive"], LONG),
    "fft": Look(COLOURS["yellow"], MIXED),
    "gavel": Look(COLOURS["wine"], LONG),
    "allox": Look(COLOURS["violet"], LONG),
    "tiresias": Look(COLOURS["brown"], MIXED),
    "pal": Look(COLOURS["forest"], MIXED),
    "sia": Look(COLOURS["indigo"], MIXED),
    "kueue": Look(COLOURS["wine"], MIXED),
    "kai": Look(COLOURS["olive"], MIXED),
    "twin": Look(COLOURS["crimson"], MIXED),
    "gfs": Look(COLOURS["indigo"], LENT),
    "gfs-e": Look(COLOURS["crimson"], LENT),
    "gfs-d": Look(COLOURS["yellow"], LENT),
    "gfs-s": Look(COLOURS["forest"], LENT),
    "gfs-p": Look(COLOURS["violet"], LENT),
    "gfs-sp": Look(COLOURS["wine"], LENT),
    "yarn-cs": Look(COLOURS["brown"], BESIDE_LENT),
    "lyra": Look(COLOURS["wine"], BESIDE_LENT),
    "fgd": Look(COLOURS["olive"], BESIDE_LENT),
    "chronus": Look(INK, BESIDE_LENT),
    "static-quota": Look(COLOURS["yellow"], BESIDE_LENT),
    "spot-first-fit": Look(COLOURS["forest"], BESIDE_LENT),
}


BASELINES: dict[str, tuple[str, str]] = {
    "recorded": (INK, "P"),
    "fixed-width": (SOFT, "s"),
    "equal": (COLOURS["yellow"], "v"),
    "pollux": (COLOURS["purple"], "^"),
    "pollux-autoscaling": (COLOURS["green"], "D"),
}
"""Color and marker of each baseline of ``gpuplan pareto``."""

OF_A_PACKAGE = (COLOURS["crimson"], "h")
"""Color and marker of one that an installed package adds."""


class GpuLook(NamedTuple):
    """Color of GPUs of one kind, and its opacity where the color shows the policy."""

    colour: str
    strength: float


KINDS: dict[str, GpuLook] = {
    "serverless": GpuLook(COLOURS["orange"], 1.0),
    "marketplace": GpuLook(COLOURS["green"], 0.5),
    "conventional": GpuLook(COLOURS["purple"], 0.2),
}


CLASSES: dict[str, Look] = {
    "high priority": Look(COLOURS["blue"], SOLID),
    "spot": Look(COLOURS["orange"], SOLID),
    "spot quota": Look(INK, DOTTED),
}
"""Lines of a replay that lends GPUs."""


def look_of(policy: str, repeat: int = 0) -> Look:
    """Return the look of a policy; its second, third, ... use in one picture has another dash.

    A policy without a look of its own has a colour by its name, and a dash that no other one has.
    """
    look = LOOKS.get(policy) or Look(CYCLE[crc32(policy.encode()) % len(CYCLE)], OTHER)
    return look._replace(dash=AGAIN[(repeat - 1) % len(AGAIN)]) if repeat else look
