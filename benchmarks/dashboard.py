"""What a person waits for in the dashboard: the page, and a changed chunk after a slider moved.

    python benchmarks/dashboard.py [DATA] [--rounds 10]

first contentful paint   from navigation, in a Chromium that runs already (needs playwright and Chromium)
slider to chunk          from `PUT /api/pipeline` with another threshold until a chunk of the new layer has arrived,
                         the model's output kept from before
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE.parent.parent / "shared" / "data" / "fibsem.zarr" / "raw"
PAINT_S, CHANGE_S = 1.0, 0.150
MODEL = {"type": "onnx", "name": "fibsem-membrane", "path": "fibsem-membrane"}


class Dashboard:
    """A dashboard process over `data`, asked with its token."""

    def __init__(self, data: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        ready = self.folder / "ready.json"
        words = [sys.executable, "-m", "chunkloom", "view", data, "--no-browser", "--ready-file", str(ready)]
        self.process = subprocess.Popen(
            [*words, "--token", "bench"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not ready.exists():
            if self.process.poll() is not None:
                raise SystemExit("the dashboard did not start")
            time.sleep(0.05)
        told = json.loads(ready.read_text())
        self.url, self.link = told["url"], told["viewer"]

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer bench", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def layer(self, name: str) -> str:
        """The address of a layer's chunks."""
        viewer = self.ask("/api/session")["layer_sources"]
        return str(viewer[name]).partition("/|")[0]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.folder)


def chunk(url: str) -> bytes:
    meta = json.loads(urllib.request.urlopen(f"{url}/s0/.zarray", timeout=20).read())
    middle = [str((n // c) // 2) for n, c in zip(meta["shape"], meta["chunks"], strict=True)]
    separator = meta.get("dimension_separator", ".")
    return bytes(urllib.request.urlopen(f"{url}/s0/{separator.join(middle)}", timeout=60).read())


def slider_to_chunk(dashboard: Dashboard, rounds: int) -> list[float]:
    dashboard.ask("/api/models", "POST", {"selected_models": [MODEL]})
    while dashboard.ask("/api/models")["models"][0]["state"] == "starting":
        time.sleep(0.1)
    time.sleep(1)
    chain = dashboard.ask("/api/pipeline")["pipeline"]
    chunk(dashboard.layer(MODEL["name"]))
    took = []
    for turn in range(rounds + 1):
        step = {"name": "ThresholdPostprocessor", "threshold": 0.3 + turn / 100}
        began = time.perf_counter()
        dashboard.ask("/api/pipeline", "PUT", {**chain, "postprocess": [*chain["postprocess"], step]})
        put = time.perf_counter()
        url = dashboard.layer(MODEL["name"])
        found = time.perf_counter()
        chunk(url)
        took.append(time.perf_counter() - found + put - began)
    return took[1:]


def first_paint(dashboard: Dashboard, rounds: int) -> list[float]:
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(HERE.parent / "tests"))
    from browser import FLAGS

    took = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page()
        page.goto(dashboard.link)
        for _ in range(rounds):
            page.goto(dashboard.url + "/")
            page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
            took.append(
                page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
            )
        browser.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=str(DATA))
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    dashboard = Dashboard(options.data)
    try:
        rows = [("slider to chunk, s", slider_to_chunk(dashboard, options.rounds), CHANGE_S)]
        if shutil.which("chromium"):
            rows.append(("first contentful paint, s", first_paint(dashboard, options.rounds), PAINT_S))
    finally:
        dashboard.stop()
    missed = False
    print(f"{'':<28} {'median':>8} {'worst':>8} {'goal':>6}")
    for name, took, goal in rows:
        missed |= median(took) > goal
        print(
            f"{name:<28} {median(took):>8.3f} {max(took):>8.3f} {goal:>6.2f}{'   <-- missed' * (median(took) > goal)}"
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
