"""The pages in a real browser: what a person does, and what they see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from browser import chromium  # noqa: F401  a fixture

from .conftest import TOKEN

pytestmark = pytest.mark.browser
AXE = Path(__file__).resolve().parents[1] / "services" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def page(chromium):  # noqa: F811
    made = chromium.page()
    yield made
    assert not made.exceptions
    assert not made.console_errors
    made.close()


def visit(page, running, path="/"):
    page.open(f"{running.url}{path}?token={TOKEN}")
    page.page.get_by_role("heading", level=1).wait_for()


def open_data(page, path):
    page.page.get_by_label("Path or address").fill(str(path))
    page.page.get_by_role("button", name="Open", exact=True).click()


def drawn(page):
    """Wait for the viewer in the page, and give a screenshot of it."""
    frame = page.page.frame_locator("iframe[title=Neuroglancer]")
    frame.locator("canvas").first.wait_for(timeout=60_000)
    inner = next(f for f in page.page.frames if "/v/" in f.url)
    inner.wait_for_function("() => window.viewer && viewer.isReady()", timeout=60_000)
    page.page.wait_for_timeout(600)
    box = page.page.locator("main").bounding_box()
    shot = page.screenshot()
    return shot[int(box["y"]) :, int(box["x"]) :]


def test_data_opened_from_the_page_is_seen_and_the_chain_changes_it(dashboard, page, shared):
    data = shared / "data" / "fibsem.zarr" / "raw"
    running = dashboard([data.parent])
    visit(page, running)
    open_data(page, data)
    page.page.get_by_text("50 × 100 × 200").wait_for()
    before = drawn(page)
    grey = before[80:250, 20:480].astype(int)
    assert grey.std() > 20  # real EM, not an empty panel
    assert np.abs(grey[..., 0] - grey[..., 1]).mean() < 4
    page.page.get_by_label("Add a normalizer").select_option("MinMaxNormalizer")
    page.page.get_by_label("Invert").check()
    page.page.wait_for_timeout(800)
    after = drawn(page)[80:250, 20:480].astype(int)
    assert np.corrcoef(grey[..., 0].ravel(), after[..., 0].ravel())[0, 1] < -0.8
    assert not page.refused


def test_a_bad_path_is_said_where_the_person_looks(dashboard, page, tmp_path):
    running = dashboard()
    visit(page, running)
    open_data(page, tmp_path / "nothing.zarr")
    alert = page.page.get_by_role("alert")
    alert.wait_for()
    assert "nothing.zarr" in alert.inner_text()
    page.page.get_by_text("Open a volume to begin").wait_for()
    assert page.refused
    page.refused.clear()


def test_a_wrong_parameter_is_said_and_the_chain_stays(dashboard, page, em):
    running = dashboard()
    visit(page, running)
    open_data(page, em)
    page.page.get_by_text("40 × 50 × 60").wait_for()
    page.page.get_by_label("Add a normalizer").select_option("LambdaNormalizer")
    page.page.get_by_label("Expression").fill("x*")
    page.page.get_by_role("alert").wait_for()
    assert "expression" in page.page.get_by_role("alert").inner_text()
    page.page.get_by_label("Expression").fill("x*3")
    page.page.get_by_role("alert").wait_for(state="detached")
    chain = running.ask("/api/pipeline").json["pipeline"]["input_norm"]
    assert chain == [{"name": "LambdaNormalizer", "expression": "x*3"}]


def test_everything_is_reached_by_keyboard(dashboard, page, em):
    running = dashboard()
    visit(page, running)
    keys = page.page.keyboard
    page.page.get_by_role("tab", name="Input").focus()
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    assert page.page.get_by_role("tab", name="Models").get_attribute("aria-selected") == "true"
    keys.press("Home")
    page.page.get_by_label("Path or address").focus()
    keys.type(str(em))
    keys.press("Enter")
    page.page.get_by_text("40 × 50 × 60").wait_for()


def test_the_builder_sends_its_chain_and_keeps_its_places(dashboard, page, em, request):
    running = dashboard()
    running.ask("/api/set-data", "POST", {"dataset_path": str(em)})
    running.dashboard.sessions.only().adopted = False
    visit(page, running, "/pipeline-builder")
    page.page.get_by_role("button", name="MinMaxNormalizer", exact=True).click()
    page.page.get_by_role("button", name="SigmoidPostprocessor", exact=True).click()
    page.page.get_by_role("button", name="ThresholdPostprocessor", exact=True).click()
    page.page.get_by_label("Threshold", exact=True).fill("0.25")
    page.page.get_by_text("Sent:").wait_for(timeout=10_000)
    session = running.ask("/api/session").json
    assert [s["name"] for s in session["pipeline"]["postprocess"]] == ["SigmoidPostprocessor", "ThresholdPostprocessor"]
    assert session["pipeline"]["postprocess"][1]["threshold"] == 0.25
    places = session["builder"]["postprocessors"]
    if request.config.getoption("--pictures"):
        page.page.get_by_role("button", name="Dark", exact=True).click()
        page.screenshot(f"{request.config.getoption('--pictures')}/builder.png")
    page.page.reload()
    page.page.get_by_role("button", name="postprocessor ThresholdPostprocessor").wait_for()
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Export YAML").click()
    import yaml

    file = download.value.path()
    exported = yaml.safe_load(Path(file).read_text())
    assert exported["postprocessors"] == places
    assert exported["inputs"][0]["dataset_path"] == str(em)


def test_a_run_that_lacks_something_says_so_where_it_is_asked_for(dashboard, page, em):
    running = dashboard()
    running.ask("/api/set-data", "POST", {"dataset_path": str(em)})
    running.dashboard.sessions.only().adopted = False
    visit(page, running, "/pipeline-builder")
    page.page.get_by_role("button", name="Blockwise settings").click()
    page.page.get_by_role("button", name="Check and write").click()
    alert = page.page.get_by_role("alert")
    alert.wait_for()
    assert "add an output" in alert.inner_text()


def test_two_browsers_look_and_tune_at_once(dashboard, page, chromium, em):  # noqa: F811
    running = dashboard()
    other = chromium._browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    visit(page, running)
    other.goto(f"{running.url}/?token={TOKEN}")
    other.get_by_role("heading", level=1).wait_for()
    for one in (page.page, other):
        one.get_by_label("Path or address").fill(str(em))
        one.get_by_role("button", name="Open", exact=True).click()
        one.get_by_text("40 × 50 × 60").wait_for()
    page.page.get_by_label("Add a normalizer").select_option("MinMaxNormalizer")
    other.get_by_label("Add a normalizer").select_option("ZScoreNormalizer")
    page.page.wait_for_timeout(1000)
    chains = sorted(session.chain.input_norm[0]["name"] for session in running.dashboard.sessions)
    assert chains == ["MinMaxNormalizer", "ZScoreNormalizer"]
    assert page.page.get_by_role("heading", name="ZScoreNormalizer").count() == 0
    assert other.get_by_role("heading", name="MinMaxNormalizer").count() == 0
    other.context.close()


def test_a_yaml_with_another_pipeline_is_imported(dashboard, page, em, tmp_path):
    running = dashboard()
    running.ask("/api/set-data", "POST", {"dataset_path": str(em)})
    running.dashboard.sessions.only().adopted = False
    visit(page, running, "/pipeline-builder")
    file = tmp_path / "p.yaml"
    file.write_text(
        "normalizers: [{id: a, name: ZScoreNormalizer, params: {mean: 3, std: 2}, position: {x: 9, y: 9}}]\nedges: []\n"
    )
    page.page.get_by_label("YAML file").set_input_files(str(file))
    page.page.get_by_text("Sent: 1 normalizers").wait_for(timeout=10_000)
    assert running.ask("/api/pipeline").json["pipeline"]["input_norm"] == [
        {"name": "ZScoreNormalizer", "mean": 3, "std": 2}
    ]
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    page.page.get_by_label("YAML file").set_input_files(str(broken))
    page.page.get_by_text("broken.yaml:").wait_for()


def test_ten_thousand_log_lines_leave_the_page_at_hand(dashboard, page, em):
    import logging
    import time

    running = dashboard()
    visit(page, running)
    page.page.get_by_role("button", name="Log").click()
    page.page.wait_for_timeout(300)
    log = logging.getLogger("chunkloom.test")
    for i in range(10_000):
        log.info("line %d", i)
    page.page.get_by_role("log").get_by_text("line 9999").wait_for(timeout=30_000)
    began = time.monotonic()
    page.page.get_by_role("tab", name="Output").click()
    page.page.get_by_text("After the model").wait_for()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("path", ["/", "/pipeline-builder"])
def test_axe_finds_no_serious_violation(dashboard, page, em, scheme, path):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: ./run tools")
    running = dashboard()
    running.ask("/api/set-data", "POST", {"dataset_path": str(em)})
    chain = {"input_norm": [{"name": "CLAHENormalizer"}], "postprocess": [{"name": "ThresholdPostprocessor"}]}
    running.ask("/api/pipeline", "PUT", chain)
    running.dashboard.sessions.only().adopted = False
    page.page.emulate_media(color_scheme=scheme)
    visit(page, running, path)
    tabs = ["Input", "Output", "Models", "Review", "Finetune"] if path == "/" else [None]
    for tab in tabs:
        if tab:
            page.page.get_by_role("tab", name=tab).click()
        page.page.wait_for_timeout(200)
        page.page.evaluate(AXE.read_text())
        found = page.page.evaluate("() => axe.run(document, {iframes: false})")
        serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert not serious, [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in serious]
