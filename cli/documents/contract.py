"""``report.json``: the JSON outputs of all studies in one."""

from __future__ import annotations

from gpuplan.analysis.plain import plain
from gpuplan.cli.documents.study import Document
from gpuplan.cli.formats.render import JSON_SCHEMA_VERSION, written_json


def as_json(document: Document) -> str:
    """Return the contract: each study as its command writes it, with its name and headline."""
    contract = {
        "schema_version": JSON_SCHEMA_VERSION,
        "command": "report",
        "title": document.title,
        "time": document.time,
        "inputs": document.inputs,
        "gates": [plain(gate.outcome()) for gate in document.gates],
        "studies": [
            {
                "name": study.name,
                "arguments": list(study.arguments),
                "headline": study.headline,
                **study.contract,
            }
            for study in document.studies
        ],
        "warnings": list(document.notes),
        "gpuplan_version": document.version,
    }
    return written_json(contract)
