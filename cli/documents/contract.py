"""``report.json``: the JSON outputs of all studies in one."""

from __future__ import annotations

import msgspec

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.documents.study import Document
from gpuplan.cli.formats.render import JSON_SCHEMA_VERSION, written_json
from gpuplan.cli.results.report import ReportedStudy, ReportResults


def as_json(document: Document) -> str:
    """Return the contract: each study as its command writes it, with its name and headline."""
    results = plain(
        ReportResults(
            title=document.title,
            time=document.time,
            inputs=msgspec.convert(document.inputs, tuple[InputFile, ...]),
            gates=tuple(gate.outcome() for gate in document.gates),
            warnings=document.notes,
            gpuplan_version=document.version,
        )
    )
    last = {name: results.pop(name) for name in ("warnings", "gpuplan_version")}
    studies = [
        {**plain(ReportedStudy(study.name, study.arguments, study.headline)), **study.contract}
        for study in document.studies
    ]
    head = {"schema_version": JSON_SCHEMA_VERSION, "command": "report"}
    return written_json({**head, **results, "studies": studies, **last})
