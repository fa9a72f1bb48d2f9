"""What a terminal shows of a document: key figures, a sentence per study, and the gates."""

from __future__ import annotations

from typing import TextIO

from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document
from gpuplan.cli.documents.verdict import key_figures, verdicts_of
from gpuplan.cli.formats.render import as_text
from gpuplan.cli.formats.report import Column, Report, cells_table, table


def said(document: Document, stream: TextIO) -> str:
    """Return what opens the document, as wide as ``stream`` where it is a terminal."""
    tables = []
    if figures := key_figures(document):
        detail = Column("detail", "detail", read=lambda figure: figure.detail or None)
        headers = {"name": "today and what to do", "value": "value"}
        tables.append(table(document.title, figures, headers, detail))
    answers = [(study.name, text) for study, text in verdicts_of(document)]
    tables.append(cells_table("Answers" if figures else document.title, "study answer", answers))
    if document.gates:
        gates = [(gate.condition, words, gate.detail) for gate, words in view.gates_of(document)]
        tables.append(cells_table("Gates", "gate result found", gates))
    return as_text(
        Report("report", {}, tuple(tables), headline=view.gates_verdict_of(document)), stream
    )
