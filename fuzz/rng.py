"""Random numbers by name: the same words, the same draws, on every machine."""

from __future__ import annotations

from random import Random


def rng_of(*words: object) -> Random:
    """Return a generator that depends on these words alone."""
    return Random("/".join(map(str, words)))
