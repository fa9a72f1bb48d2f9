"""The report in a real browser: headless Chromium, driven by its own driver, without a network.

`make test-browser` runs it where Debian's chromium and chromium-driver are installed.
"""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path

import pytest
import support_document as made
from support_browser import CHROMIUM, DRIVER, asked, start

selenium = pytest.importorskip("selenium", reason="selenium comes with the dev extra")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]

LEAST_TEXT_PX = 9.0
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3, level AA
CONTRAST = """
const parse = (text) => {
  const m = text.match(/rgba?\\(([^)]+)\\)/);
  if (!m) return null;
  const [r, g, b, a = 1] = m[1].split(/[ ,/]+/).map(Number);
  return { rgb: [r, g, b], a };
};
const light = ([r, g, b]) => {
  const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
};
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c && c.a > 0.99) return c.rgb;
  }
  return [255, 255, 255];
};
const found = [];
document.querySelectorAll("details").forEach((one) => (one.open = true));
for (const e of document.querySelectorAll("body *")) {
  const own = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
  const hidden = ["SCRIPT", "STYLE", "title", "desc"].includes(e.tagName);
  if (!own || hidden || !e.getClientRects().length) continue;
  const style = getComputedStyle(e);
  const inSvg = e instanceof SVGElement;
  const ink = parse(inSvg ? style.fill : style.color);
  const paper = behind(inSvg ? e.ownerSVGElement.parentElement : e);
  const [a, b] = [light(ink.rgb), light(paper)].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), e.textContent.trim().slice(0, 40), inSvg]);
}
return found;
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of its own choice of studies, a gate that trips and one that does not."""
    from gpuplan.cli.app.main import main

    folder = tmp_path_factory.mktemp("report")
    trace = made.write_trace(folder / "lab.parquet")
    some = ("--fail-if", "characterize.duration.p95 > 1s", "--fail-if", "pareto.jobs < 1")
    assert main(["report", str(trace), "-o", str(folder), "-q", *some, "--formats", "html"]) == 1
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser():
    driver = start()
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, report):
    """The page, open, with nothing logged before."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(report.as_uri())
    return browser


def prefer(page, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def at_width(page, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def test_it_asks_for_nothing_and_complains_of_nothing(page, report):
    assert page.get_log("browser") == []
    assert asked(page) == {report.as_uri()}


def test_every_figure_is_seen(page):
    figures = page.find_elements("css selector", "figure svg[role=img]")
    studies = page.find_elements("css selector", "section[id^=study-]")
    assert len(figures) == len(studies) == 3
    for figure in figures:
        assert figure.rect["width"] > 500 and figure.rect["height"] > 150
        assert figure.get_attribute("aria-labelledby").count(" ") == 1
        assert len(figure.find_elements("css selector", ".values title")) > 3
    names = page.execute_script(
        "return Array.from(document.querySelectorAll('figure svg'), (e) => "
        "e.getAttribute('aria-labelledby').split(' ').every((id) => "
        "document.getElementById(id).textContent.length > 5))"
    )
    assert names == [True] * len(figures)


def test_a_table_sorts_by_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    table = page.find_element("css selector", "#study-pareto table[data-sortable]")
    head = table.find_elements("css selector", "thead th")[2]  # mean JCT, in mixed units
    button = head.find_element("css selector", "button")

    def shown():
        rows = table.find_elements("css selector", "tbody tr")
        return [float(row.find_elements("css selector", "th,td")[2].get_attribute("data-key"))
                for row in rows]  # fmt: skip

    assert head.get_attribute("aria-sort") == "none" and len(shown()) > 3
    page.execute_script("arguments[0].focus()", button)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending" and shown() == sorted(shown())
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert head.get_attribute("aria-sort") == "descending"
    assert shown() == sorted(shown(), reverse=True)
    assert "descending" in page.find_element("id", "told").get_attribute("textContent")
    other = table.find_elements("css selector", "thead th button")[0]
    page.execute_script("arguments[0].click()", other)
    assert head.get_attribute("aria-sort") == "none"


def test_the_first_key_leads_past_the_contents(page):
    from selenium.webdriver.common.keys import Keys

    page.find_element("css selector", "body").send_keys(Keys.TAB)
    skip = page.switch_to.active_element
    assert skip.text == "Skip to the results" and skip.location["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "content"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(page, scheme):
    prefer(page, scheme)
    found = page.execute_script(CONTRAST)
    assert sum(in_svg for *_, in_svg in found) > 40 and len(found) > 200
    assert [one for one in found if one[0] < LEAST_CONTRAST] == []


def test_dark_is_dark(page):
    script = "return getComputedStyle(document.body).backgroundColor"
    prefer(page, "light")
    light = page.execute_script(script)
    prefer(page, "dark")
    assert light == "rgb(246, 248, 250)" and page.execute_script(script) == "rgb(13, 17, 23)"


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_it_needs_no_sideways_scrolling(page, width):
    at_width(page, width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize(("width", "is_narrow"), [(390, True), (1280, False)])
def test_a_picture_wider_than_the_page_says_so_and_its_text_can_be_read(page, width, is_narrow):
    at_width(page, width)
    pictures = page.execute_script(
        "return Array.from(document.querySelectorAll('figure'), (figure) => {"
        "  const [wide, cue] = ['.wide', '.swipe'].map((name) => figure.querySelector(name));"
        "  const svg = figure.querySelector('svg'), scale = svg.getScreenCTM().a;"
        "  const sizes = Array.from(svg.querySelectorAll('text'), (text) =>"
        "    scale * parseFloat(getComputedStyle(text).fontSize));"
        "  const said = getComputedStyle(cue).display !== 'none';"
        "  return [wide.scrollWidth > wide.clientWidth, said, Math.min(...sizes)]; });"
    )
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert len(pictures) == 3
    assert [(wider, said) for wider, said, _ in pictures] == [(is_narrow, is_narrow)] * 3
    assert min(smallest for *_, smallest in pictures) >= LEAST_TEXT_PX


def test_only_the_paper_of_a_picture_is_clear(page):
    fills = page.execute_script(
        "return Array.from(document.querySelectorAll('figure svg path'), (e) =>"
        " [e.style.fill, getComputedStyle(e).fill]);"
    )
    clear = {wanted for wanted, drawn in fills if drawn == "none"}
    assert clear == {"none", "var(--paper)"}


def test_long_tables_are_cut_short_on_paper_and_say_so(page):
    page.execute_script(
        "const long = document.querySelector('table');"
        "const row = long.querySelector('tbody tr');"
        "for (let i = 0; i < 60; i++) row.after(row.cloneNode(true));"
        "long.closest('.scroll').classList.add('long');"
    )
    shown = (
        "return Array.from(document.querySelectorAll('.long tbody tr'))"
        ".filter((e) => getComputedStyle(e).display !== 'none').length"
    )
    assert page.execute_script(shown) > 60
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.execute_script(shown) == 40


def test_it_is_whole_without_scripts(browser, report):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(report.as_uri())
        figures = browser.find_elements("css selector", "figure svg[role=img]")
        tables = browser.find_elements("css selector", "table tbody tr")
        assert len(figures) == 3 and all(figure.rect["height"] > 150 for figure in figures)
        assert len(tables) > 20
        assert not browser.find_elements("css selector", "th button")  # nothing that does nothing
        folded = browser.find_elements("css selector", "section > details > summary")
        assert folded and all(summary.rect["height"] > 10 for summary in folded)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_names_stand_on_one_line_on_a_phone(page):
    at_width(page, 390)
    lines = (
        "document.querySelectorAll('details').forEach((one) => (one.open = true));"
        "return Array.from(document.querySelectorAll(arguments[0]), (e) => "
        "Math.round(e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)))"
    )
    names = page.execute_script(lines, ".parameters tbody th code")
    gates = page.execute_script(lines, ".gates tbody tr")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert len(names) > 40 and set(names) == {1}
    assert len(gates) == 2 and max(gates) <= 4


def test_paper_has_no_tables_of_parameters(page):
    def shown():
        return page.execute_script(
            "return ['.parameters', '.paper'].map((one) => "
            "getComputedStyle(document.querySelector(one)).display)"
        )

    assert shown() == ["block", "none"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert shown() == ["none", "block"]


def test_headings_and_landmarks_are_in_order(page):
    levels = page.execute_script(
        "return Array.from(document.querySelectorAll('h1,h2,h3,h4'), (e) => +e.tagName[1])"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - before <= 1 for before, later in pairwise(levels))
    for name in ("header", "nav", "main", "footer"):
        assert len(page.find_elements("css selector", f"body {name}")) == 1
    assert page.execute_script("return document.documentElement.lang") == "en"
    assert page.execute_script("return document.querySelectorAll('[id]').length") == (
        page.execute_script(
            "return new Set(Array.from(document.querySelectorAll('[id]'), (e) => e.id)).size"
        )
    )


def test_it_prints_with_every_part_open(page):
    page.execute_script(
        "window.opened = null; addEventListener('beforeprint', () => "
        "{ window.opened = document.querySelectorAll('details:not([open])').length; });"
    )
    paper = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(paper["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 50_000
    assert page.execute_script("return window.opened") == 0
    assert page.execute_script("return document.querySelectorAll('details[open]').length") == 0
