"""``junit.xml``: one test case per gate, for the test view of a CI service."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from gpuplan.cli.document.study import Document

ELEMENTS = {"failed": "failure", "unchecked": "skipped", "error": "error"}


def as_junit(document: Document) -> str:
    """Return JUnit XML; a condition on a field without a value is a skipped case."""
    states = [gate.state for gate in document.gates]
    counts = {
        "tests": str(len(states)),
        "failures": str(states.count("failed")),
        "errors": str(states.count("error")),
        "skipped": str(states.count("unchecked")),
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": f"gpuplan: {document.title}", **counts})
    if document.time is not None:
        suite.set("timestamp", document.time)
    for gate in document.gates:
        case = ET.SubElement(
            suite, "testcase", {"classname": "gpuplan.gates", "name": gate.condition, "time": "0"}
        )
        if gate.state == "passed":
            ET.SubElement(case, "system-out").text = gate.detail
        else:
            ET.SubElement(case, ELEMENTS[gate.state], {"message": gate.detail})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'
