"""Headless Chromium for tests of pages; they are skipped where it is missing."""

from __future__ import annotations

import contextlib
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextlib.contextmanager
def chromium():
    """A browser; skips the test if there is none on this machine."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(browser, url, *, width=1100, scheme="light"):
    """A page that was opened, with what it said to the console and what it asked the network for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(url)
    page.wait_for_load_state("networkidle")
    try:
        yield page
    finally:
        context.close()
