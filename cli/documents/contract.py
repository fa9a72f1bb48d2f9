"""What programs read: ``report.json`` with all studies, and ``junit.xml`` with a test per gate."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import msgspec

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.documents.study import Document
from gpuplan.cli.formats.escape import xml
from gpuplan.cli.formats.render import JSON_SCHEMA_VERSION, written_json
from gpuplan.cli.gates.gates import GateResult
from gpuplan.cli.results import ReportedStudy, ReportResults


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


PASSED = "system-out"


def as_junit(document: Document) -> str:
    """Return JUnit XML; a gate that only warns, or may be unchecked and is, is a skipped case."""
    elements = [_element(gate) for gate in document.gates]
    counts = {
        "tests": str(len(elements)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": xml(f"gpuplan: {document.title}"), **counts})
    if document.time is not None:
        suite.set("timestamp", document.time)
    for gate, element in zip(document.gates, elements, strict=True):
        named = {"classname": "gpuplan.gates", "name": xml(gate.condition), "time": "0"}
        case = ET.SubElement(suite, "testcase", named)
        if element == PASSED:
            ET.SubElement(case, element).text = xml(gate.detail)
        else:
            ET.SubElement(case, element, {"message": xml(gate.detail)})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _element(gate: GateResult) -> str:
    """Return what says how a test case ended."""
    if gate.state == "error":
        return "error"
    if gate.fails:
        return "failure"
    return PASSED if gate.state == "passed" else "skipped"
