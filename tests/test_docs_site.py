"""The pages build as a site without a warning, and the site asks no other host for anything."""

import logging
import re
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support_browser import CHROMIUM, DRIVER, asked, start

pytest.importorskip("material", reason="mkdocs-material comes with the dev extra")
ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]*)"|<link\b[^>]*>""")
FROM_STYLE = re.compile(r"""(?:url\(|@import\s+)["']?([^"')\s]+)""")
ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built where no other host can be asked."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    def refuse(*_):
        raise AssertionError("the build opens a connection")

    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    folder = tmp_path_factory.mktemp("site")
    logging.getLogger("mkdocs").addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    logging.getLogger("mkdocs").removeHandler(handler)
    assert messages == []  # a dead link or anchor, a page that the navigation lacks
    return folder


@pytest.mark.slow
def test_every_page_is_there(site):
    for page in (ROOT / "docs").rglob("*.md"):
        name = "index" if page.stem == "README" else page.stem
        built = site / page.relative_to(ROOT / "docs").with_name(f"{name}.html")
        assert "<h1" in built.read_text(encoding="utf-8"), page


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_lists_within_lists_are_indented_as_the_site_wants(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert re.findall(r"^ {1,3}(?:[-*]|\d+\.) .*", text, re.MULTILINE) == []  # 4 spaces


def test_nothing_is_loaded_from_elsewhere(site):
    asked = []
    for page in site.rglob("*.html"):
        for tag in LOADED.finditer(page.read_text(encoding="utf-8")):
            href = re.search(r'href="([^"]*)"', tag[0])
            asked.append(tag[1] or (href[1] if href else ""))
    for sheet in (*site.rglob("*.css"), *site.rglob("*.html")):
        asked += FROM_STYLE.findall(sheet.read_text(encoding="utf-8"))
    assert any(url.endswith(".js") for url in asked) and any(url.endswith(".css") for url in asked)
    assert [url for url in asked if ELSEWHERE.match(url)] == []


def test_the_words_of_the_pages_can_be_searched(site):
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "tutorial.html" in index and "scale_out" in index


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
def test_a_browser_searches_and_asks_no_other_host(site):
    pytest.importorskip("selenium", reason="selenium comes with the dev extra")
    from selenium.webdriver.support.ui import WebDriverWait

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}/"
    driver = start()
    try:
        for page in ("tutorial.html", "allpass.html", "index.html"):
            driver.get(here + page)
        driver.find_element("css selector", "[data-md-component=search-query]").send_keys("knee")
        found = "a.md-search-result__link"
        WebDriverWait(driver, 20).until(lambda d: d.find_elements("css selector", found))
        assert driver.get_log("browser") == []
        urls = asked(driver)
    finally:
        driver.quit()
        server.shutdown()
    assert here + "search/search_index.json" in urls
    assert [url for url in urls if not url.startswith((here, f"blob:{here}"))] == []
