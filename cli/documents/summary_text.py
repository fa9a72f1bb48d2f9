"""What a terminal shows of a document: the answers and the gates."""

from __future__ import annotations

import sys

from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document
from gpuplan.cli.documents.verdict import verdict_of
from gpuplan.cli.formats.render import as_text
from gpuplan.cli.formats.report import Column, Report, Table


def said(document: Document) -> str:
    """Return each study's answer and each gate's result, for a terminal."""
    answers = Table(
        document.title,
        (Column("study", "study"), Column("answer", "answer")),
        [(study.name, study.headline) for study in document.studies],
    )
    gates = Table(
        "Gates",
        (Column("gate", "gate"), Column("result", "result"), Column("found", "found")),
        [(gate.condition, words, gate.detail) for gate, words in view.gates_of(document)],
    )
    tables = (answers, gates) if document.gates else (answers,)
    verdict = "\n".join(filter(None, (view.gates_verdict_of(document), verdict_of(document))))
    return as_text(Report("report", {}, tables, headline=verdict), sys.stdout)
