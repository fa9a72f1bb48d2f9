"""How far apart two traces are in one quantity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TwoSample:
    """One quantity in two traces; None if a trace has no values.

    Attributes:
        first, second: names of the traces.
        quantity: ``duration_s``, ``gap_s`` (between submissions) or ``num_gpus`` (of GPU jobs).
        ks: greatest distance between the two distribution functions.
        ks_at: value where it occurs.
        p_value: probability of that distance between two samples of one distribution, by its limit
            law for independent values. Jobs of one user are not independent, so it is too small.
        median_first, median_second: medians.
        median_ratio: second over first; None where the first is 0.
        median_difference: second minus first.
        ratio_ci, difference_ci: bootstrap intervals of the two, for durations if requested.
    """

    first: str
    second: str
    quantity: str
    ks: float | None = None
    ks_at: float | None = None
    p_value: float | None = None
    median_first: float | None = None
    median_second: float | None = None
    median_ratio: float | None = None
    median_difference: float | None = None
    ratio_ci: tuple[float, float] | None = None
    difference_ci: tuple[float, float] | None = None
