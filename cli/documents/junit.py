"""``junit.xml``: one test case per gate, for the test view of a CI service."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from gpuplan.cli.documents.study import Document
from gpuplan.cli.formats.escape import xml
from gpuplan.cli.gates.gates import GateResult

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
