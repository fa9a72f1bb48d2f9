"""Gates of a document: conditions on the fields of its studies; see `gpuplan.cli.gates.gates`."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.cli.documents.annotations import announce
from gpuplan.cli.documents.markdown import as_markdown
from gpuplan.cli.documents.study import Document, StudyResult
from gpuplan.cli.gates.gates import GateResult, check_all, raise_tripped


def judge_all(studies: Sequence[StudyResult], conditions: Sequence[str]) -> tuple[GateResult, ...]:
    """Return what comes of each condition; raises nothing, so that documents can tell it."""
    return tuple(check_all({study.name: study.results for study in studies}, conditions))


def raise_failed(gates: Sequence[GateResult], *, is_written: bool = True) -> None:
    """End the program as its gates say, once everything has been written.

    Args:
        gates: what came of each condition.
        is_written: whether there are documents, and not the printed result alone.

    Raises:
        GateFailed: a condition holds.
        UsageError: a condition names no field; the message also names those that hold.
    """
    written = "the documents have been written" if is_written else "the result has been printed"
    raise_tripped(gates, written=written, given_as="gate")


def conclude(document: Document, *, is_written: bool = True) -> None:
    """Tell the CI service of the gates, if there is one; then end the program as they say."""
    announce(document.gates, lambda: as_markdown(document))
    raise_failed(document.gates, is_written=is_written)
