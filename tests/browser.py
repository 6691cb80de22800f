"""Driving a page in a real, headless Chromium, and looking at what Neuroglancer drew on it.

`from browser import chromium` in a conftest.py or test module gives the fixture; mark its tests `browser`. They are
skipped, with the reason, where there is no Chromium or no playwright.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",  # WebGL2 by SwiftShader, the same everywhere
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--mute-audio",
    "--no-first-run",
]
WINDOW = {"width": 1280, "height": 800}

# Data has arrived and is on the (software) GPU, in every layer and panel.
READY = """() => window.viewer && viewer.layerManager.managedLayers.length > 0 && viewer.isReady()"""
# The frame with that data is on the screen.
DRAWN = """() => new Promise(done => {
  viewer.display.draw();
  requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
})"""
# Neuroglancer shows these to the person and throws nothing.
LAYER_ERRORS = """() => viewer.layerManager.managedLayers.flatMap(({name, layer}) => {
  const found = [];
  if (layer === null) return found;
  for (const source of layer.dataSources) {
    const error = source.loadState?.error ?? source.messages?.messages?.[0]?.message;
    if (error) found.push(`${name}: ${error.message ?? error}`);
  }
  const shader = layer.shaderError?.value;
  if (shader) found.push(`${name}: shader: ${shader.message ?? JSON.stringify(shader)}`);
  return found;
})"""
PANELS = """() => [...viewer.display.panels].filter(p => p.sliceView).map(p => {
  const box = p.element.getBoundingClientRect();
  const across = p.sliceView.projectionParameters.value.invViewMatrix;
  const names = viewer.coordinateSpace.value.names;
  const axis = column => {
    const parts = [0, 1, 2].map(i => across[4 * column + i]);
    const at = parts.map(Math.abs).indexOf(Math.max(...parts.map(Math.abs)));
    return [names[at], Math.sign(parts[at])];
  };
  return {
    left: box.left + p.element.clientLeft, top: box.top + p.element.clientTop,
    width: p.element.clientWidth, height: p.element.clientHeight, right: axis(0), down: axis(1),
  };
})"""


@dataclass(frozen=True)
class Panel:
    """A cross-section on the screen: its inner box in pixels, and which axis (and way, ±1) goes right, and down."""

    left: float
    top: float
    width: int
    height: int
    right: tuple[str, int]
    down: tuple[str, int]

    @property
    def axes(self) -> str:
        """The two axes it shows, in alphabetic order: "xy", "xz" or "yz"."""
        return "".join(sorted(self.right[0] + self.down[0]))

    def crop(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The panel's part of a screenshot."""
        top, left = round(self.top), round(self.left)
        return image[top : top + self.height, left : left + self.width]


class BrowserPage:
    """A page that remembers what went wrong on it.

    Attributes
    ----------
    exceptions
        Exceptions that nothing caught.
    console_errors
        What was written to the console as an error, less the line the browser adds for a failed request.
    failed
        Addresses of requests that got no answer.
    refused
        (status, address) of answers of 400 and above. A browser's own request for an icon is left out.
    requested
        Every address asked for.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        self.exceptions: list[str] = []
        self.console_errors: list[str] = []
        self.failed: list[str] = []
        self.refused: list[tuple[int, str]] = []
        self.requested: list[str] = []
        self._waiting: list[str] = []
        page.on("pageerror", lambda error: self.exceptions.append(str(error)))
        page.on("console", self._on_console)
        page.on("request", self._on_request)
        page.on("requestfinished", lambda request: self._waiting.remove(request.url))
        page.on("requestfailed", self._on_failure)
        page.on("response", self._on_response)

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.console_errors.append(message.text)

    def _on_request(self, request: Any) -> None:
        self.requested.append(request.url)
        self._waiting.append(request.url)

    def _on_failure(self, request: Any) -> None:
        self._waiting.remove(request.url)
        self.failed.append(f"{request.url}: {request.failure}")

    def _on_response(self, response: Any) -> None:
        if response.status >= 400 and urlsplit(response.url).path != "/favicon.ico":
            self.refused.append((response.status, response.url))

    def open(self, url: str) -> None:
        self.page.goto(url)

    def wait_until_drawn(self, until: str = "true", timeout_s: float = 60) -> None:
        """Wait until Neuroglancer has all data of the view on the screen, and the JavaScript `until` holds."""
        from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

        try:
            for condition in (READY, f"() => {until}", READY):
                self.page.wait_for_function(condition, timeout=timeout_s * 1000, polling=100)
        except PlaywrightTimeoutError as error:
            raise AssertionError(
                f"not drawn after {timeout_s} s: problems {self.problems()}, no answer yet from {self._waiting}"
            ) from error
        self.page.evaluate(DRAWN)

    def screenshot(self, save_as: str | None = None) -> np.ndarray[Any, Any]:
        """What is on the screen, uint8 (height, width, 3)."""
        from PIL import Image

        png = self.page.screenshot(path=save_as)
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))

    def panels(self) -> dict[str, Panel]:
        """The cross-sections by their axes: "xy", "xz", "yz"."""
        found = [
            Panel(**{**p, "right": tuple(p["right"]), "down": tuple(p["down"])}) for p in self.page.evaluate(PANELS)
        ]
        return {panel.axes: panel for panel in found}

    def problems(self) -> list[str]:
        """Everything that went wrong so far, and what Neuroglancer says is wrong with its layers."""
        outside = [url for url in self.requested if urlsplit(url).hostname not in ("127.0.0.1", None)]
        return [
            *(f"exception: {text}" for text in self.exceptions),
            *(f"console: {text}" for text in self.console_errors),
            *(f"no answer: {text}" for text in self.failed),
            *(f"answer {status}: {url}" for status, url in self.refused),
            *(f"outside host: {url}" for url in outside if not url.startswith(("data:", "blob:"))),
            *(f"layer {text}" for text in self.page.evaluate(LAYER_ERRORS)),
        ]

    def close(self) -> None:
        self.page.close()


class Chromium:
    """A running browser. `page()` opens a new, empty page of 1280 x 800."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def page(self) -> BrowserPage:
        return BrowserPage(self._browser.new_page(viewport=WINDOW))


# Not of the whole session: playwright keeps an event loop running in the main thread, in which other tests could not
# start one of their own. Starting Chromium takes under a second.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """A headless Chromium for the tests of a module."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no Chromium on PATH: install Debian's packages chromium and fonts-dejavu-core")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=FLAGS)
        yield Chromium(browser)
        browser.close()
