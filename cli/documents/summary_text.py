"""What a terminal shows of a document: key figures, a sentence per study, and the gates."""

from __future__ import annotations

from typing import TextIO

from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document
from gpuplan.cli.documents.verdict import key_figures, verdicts_of
from gpuplan.cli.formats.render import as_text
from gpuplan.cli.formats.report import Column, Report, Table


def said(document: Document, stream: TextIO) -> str:
    """Return what opens the document, as wide as ``stream`` where it is a terminal."""
    tables = []
    if figures := key_figures(document):
        columns = (Column("figure", "today and what to do"), Column("value", "value"),
                   Column("detail", "detail"))  # fmt: skip
        rows = [(one.name, one.value, one.detail or None) for one in figures]
        tables.append(Table(document.title, columns, rows))
    answers = [(study.name, text) for study, text in verdicts_of(document)]
    headings = (Column("study", "study"), Column("answer", "answer"))
    tables.append(Table("Answers" if figures else document.title, headings, answers))
    if document.gates:
        names = (Column("gate", "gate"), Column("result", "result"), Column("found", "found"))
        gates = [(gate.condition, words, gate.detail) for gate, words in view.gates_of(document)]
        tables.append(Table("Gates", names, gates))
    return as_text(
        Report("report", {}, tuple(tables), headline=view.gates_verdict_of(document)), stream
    )
