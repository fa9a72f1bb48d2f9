"""Headless Chromium as tests start it, and what a page of it asked for."""

from __future__ import annotations

import json
import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"),
    "--disable-quic",
    "--window-size=1280,1000",
)


def start():
    """Start a browser that keeps a log of its console and of its requests."""
    from selenium.webdriver import Chrome
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM or ""
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=Service(DRIVER))


def asked(driver):
    """What was asked for since the log was read last."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    return {url for url in urls if not url.startswith("data:")}
