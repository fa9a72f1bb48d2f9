"""The answer of a study: what was asked for, what was computed, and what to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from gpuplan.analysis.trace.input_files import InputFile

Q = TypeVar("Q")
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[Q, R]):
    """The answer of a study; what a table or a picture needs besides is a subclass's field.

    Attributes:
        request: what was asked for.
        results: what was computed; what of it is not `Hidden` goes into JSON.
        inputs: the files read.
        warnings: what would change the reader's decision, one sentence each.
        caveats: what else limits the results, one sentence each.
        notes: what helps who asked; no part of the results.
        failure: why the answer is that nothing will do; the command fails with it once the answer
            is shown. Empty where something will.
    """

    request: Q
    results: R
    inputs: tuple[InputFile, ...] = ()
    warnings: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str = ""
