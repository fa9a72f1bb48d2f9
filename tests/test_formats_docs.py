"""The pages on formats: every format once, with an example, and no dead link."""

import re
from pathlib import Path

import pytest

from gpuplan.analysis.invoices.registry import INVOICE_FORMATS
from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "formats").glob("*.md"))
OTHERS = ("prices.md", "invoices.md", "utilization.md")
"""Pages on formats that are no logs."""
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")


def sections(page):
    """Return heading -> text."""
    _, *parts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


@pytest.mark.parametrize(
    ("formats", "command", "pages"),
    [
        (FORMATS, "ingest", [page for page in PAGES if page.name not in OTHERS]),
        (PRICE_FORMATS, "prices", [DOCS / "formats" / "prices.md"]),
        (INVOICE_FORMATS, "bill", [DOCS / "formats" / "invoices.md"]),
    ],
)
def test_every_format_has_its_section_with_an_example(formats, command, pages):
    for known in formats.values():
        with_it = [
            text for page in pages for name, text in sections(page).items() if name == known.name
        ]
        assert len(with_it) == 1, known.name
        assert re.search(rf"^    .*gpuplan {command} .*-o ", with_it[0], re.MULTILINE), known.name
        index = (DOCS / "formats" / "README.md").read_text()
        assert any(f"[{known.name}]({page.name}#{known.name})" in index for page in pages)


@pytest.mark.parametrize("page", [*PAGES, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text()):
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", other.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{page.name}: {target}#{anchor}"
