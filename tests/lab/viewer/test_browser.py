"""The page in a real browser: it loads, answers pointer and keys, filters, and stays fluid with 10,000 steps."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

import pytest
import torch

import sparsam
from sparsam.lab import tasks
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig
from sparsam.lab.training.loop import train
from sparsam.lab.viewer.episode import Steps, record
from sparsam.lab.viewer.live import make_server
from sparsam.lab.viewer.page import curves_of, render, write_page
from sparsam.lab.viewer.tasks import describe

webdriver = pytest.importorskip("selenium.webdriver", reason="the browser is driven with selenium")
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROME = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
HOW = (
    "no Chromium with its driver on this machine: apt-get install chromium chromium-driver, or on a Mac "
    "brew install --cask chromium chromedriver"
)
pytestmark = pytest.mark.skipif(not (CHROME and DRIVER), reason=HOW)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROME
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield made
    made.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return write_page(["babi-sam"], tmp_path_factory.mktemp("page") / "babi.html")


@pytest.fixture
def opened(browser, page):
    """The page, freshly loaded; afterwards nothing may have been complained about."""
    browser.get(page.as_uri())
    settle(browser)
    yield browser
    assert complaints(browser) == []


def complaints(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def settle(browser) -> None:
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def press(browser, keys: str) -> None:
    browser.find_element("tag name", "body").send_keys(keys)
    settle(browser)


def text(browser, name: str) -> str:
    return browser.find_element("id", name).text


def picture(browser) -> int:
    """How many pixels of the memory's canvas are not empty."""
    return browser.execute_script(
        "const c = document.getElementById('memory');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n;"
    )


def place_of_strongest_read(browser) -> tuple[float, float]:
    return place_of_strongest(browser, 0)


def place_of_strongest(browser, kind: int) -> tuple[float, float]:
    """Where the strongest read (0) or write (1) of the selected step is drawn."""
    return browser.execute_script(
        f"const s = window.sparsam, e = s.episode, i = e.accesses(s.state.step, {kind})[0];"
        "const l = s.memory.layout(s.state.view);"
        "return [MARGIN.left + (e.time[i] + .5 - s.state.view.t0) * l.cw,"
        " MARGIN.top + (s.state.place[e.row[i]] + .5 - s.state.view.r0) * l.ch];"
    )


def move(browser, x: float, y: float, click: bool = False) -> None:
    canvas = browser.find_element("id", "memory")
    size = canvas.size
    chain = webdriver.ActionChains(browser)
    chain.move_to_element_with_offset(canvas, round(x - size["width"] / 2), round(y - size["height"] / 2))
    if click:
        chain.click()
    chain.perform()
    settle(browser)


def test_loads_and_draws(opened):
    assert text(opened, "title") == "SAM on babi"
    assert "Answers: 3, wrong: 0." in text(opened, "details")
    assert "Mary went to the kitchen." in text(opened, "story")
    assert picture(opened) > 2_000


def test_an_answer_shows_what_was_read_for_it_and_leads_there(opened):
    press(opened, "n")
    press(opened, "n")
    details = text(opened, "details")
    assert "Answer, right" in details and "office (100%)" in details and "Read for this answer" in details
    jump = opened.find_element("css selector", "#details .jump")
    assert jump.text == "Mary journeyed to the office."
    jump.click()
    settle(opened)
    assert "Mary journeyed to the office." in text(opened, "details")
    assert opened.find_element("css selector", "#story li.now").text == "Mary journeyed to the office."


def test_hover_tells_the_weight_and_what_was_written_when(opened):
    press(opened, "nn")
    move(opened, *place_of_strongest_read(opened))
    tip = opened.find_element("id", "tip")
    assert tip.is_displayed()
    assert "reads row" in tip.text and "written at step" in tip.text and "office" in tip.text


def test_click_selects_a_step(opened):
    press(opened, "n")
    where = place_of_strongest_read(opened)
    press(opened, "\ue00c")  # escape
    assert "The whole sequence" in text(opened, "details")
    move(opened, *where, click=True)
    assert text(opened, "details").startswith("Step ")


def test_filters_hide_marks(opened):
    everything = picture(opened)
    opened.find_element("id", "writes").click()
    settle(opened)
    assert picture(opened) < everything
    for head in range(4):
        press(opened, str(head + 1))
    nothing = picture(opened)
    press(opened, "1")
    assert nothing < picture(opened) < everything
    assert opened.find_element("id", "writes").get_attribute("aria-pressed") == "false"


def test_zoom_keys_theme_and_play(opened):
    def span() -> float:
        return opened.execute_script("const v = window.sparsam.state.view; return v.t1 - v.t0;")

    whole = span()
    press(opened, "+")
    press(opened, "+")
    assert span() < 0.5 * whole
    opened.execute_script(
        "document.getElementById('memory').dispatchEvent(new WheelEvent('wheel', {deltaY: -300, cancelable: true}))"
    )
    settle(opened)
    assert span() < 0.36 * whole
    press(opened, "0")
    assert span() == whole
    before = opened.execute_script("return document.documentElement.dataset.theme")
    press(opened, "t")
    assert opened.execute_script("return document.documentElement.dataset.theme") != before
    press(opened, " ")
    opened.execute_async_script("setTimeout(arguments[0], 600)")
    assert opened.execute_script("return window.sparsam.state.step") > 0
    press(opened, " ")
    assert opened.execute_script("return window.sparsam.state.playing") is None
    opened.find_element("css selector", "#episode option:nth-child(2)").click()
    settle(opened)
    assert "Gertrude is a cat." in text(opened, "story")


def test_keys_step_through_time(opened):
    press(opened, "\ue014")  # right
    assert opened.execute_script("return window.sparsam.state.step") == 0
    press(opened, "\ue014\ue014\ue012")  # right, right, left
    assert opened.execute_script("return window.sparsam.state.step") == 1


def test_a_click_on_an_answer_shows_it(opened):
    """In the tracks below the memory, where input, target and answer stand under each other."""
    words = painted(opened, "tracks")
    assert {"input", "target", "answer", "kitchen"} <= set(words)
    step = opened.execute_script("return window.sparsam.episode.answers[0]")
    place = opened.execute_script(f"return window.sparsam.memory.x({step} + 0.5, window.sparsam.state.view)")
    tracks = opened.find_element("id", "tracks")
    chain = webdriver.ActionChains(opened)
    chain.move_to_element_with_offset(tracks, round(place - tracks.size["width"] / 2), 0).click().perform()
    settle(opened)
    assert "Answer, right" in text(opened, "details") and "Read for this answer" in text(opened, "details")


def painted(browser, canvas: str) -> list[str]:
    """The words that a frame writes onto a canvas."""
    return browser.execute_script(
        "const made = CanvasRenderingContext2D.prototype, plain = made.fillText, words = [];"
        f"made.fillText = function (t, ...a) {{ if (this.canvas.id === '{canvas}') words.push(t);"
        " return plain.call(this, t, ...a); };"
        "window.sparsam.draw(); made.fillText = plain; return words;"
    )


@pytest.mark.parametrize("preferred", ["light", "dark"])
def test_light_and_dark_follow_the_system(browser, page, preferred):
    features = [{"name": "prefers-color-scheme", "value": preferred}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())
    settle(browser)
    assert browser.execute_script("return document.documentElement.dataset.theme") == preferred
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert brightness > 200 if preferred == "light" else brightness < 80
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_phone_shows_an_answer_before_the_buttons(browser, page):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.get(page.as_uri())
    settle(browser)
    assert "Answer, right" in text(browser, "details") and "Read for this answer" in text(browser, "details")
    details, buttons = (browser.find_element("css selector", name).rect for name in ("#details", ".controls"))
    assert details["y"] + details["height"] <= buttons["y"]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_hover_shows_the_pair_that_was_written(browser, tmp_path):
    browser.get(write_page(["recall-sam"], tmp_path / "recall.html", size=4).as_uri())
    settle(browser)
    press(browser, "n")
    move(browser, *place_of_strongest_read(browser))
    assert re.search(r"reads row [\d,]+: \d\.\d\d", text(browser, "tip"))
    assert re.search(r"written at step \d+: pair \d: [01 ]+ -> [01 ]+", text(browser, "tip"))
    assert complaints(browser) == []


def test_hover_shows_the_image_that_was_written(browser, tmp_path):
    torch.manual_seed(0)
    steps = Steps(["a", "b"] * 4, ["label 0", "label 1"], [0, 1] * 4, images=torch.rand(8, 5, 5))
    mask, targets = torch.ones(8, 1, dtype=torch.bool), torch.tensor([[0], [1]] * 4)
    model = sparsam.SAM(27, 2, hidden_size=8, memory_size=32, word_size=8, num_heads=1, k=2)
    episode = record(model, tasks.Batch(torch.rand(8, 1, 27), targets, mask), steps, "images")
    (tmp_path / "images.html").write_text(render("images", "", [episode]), encoding="utf-8")
    browser.get((tmp_path / "images.html").as_uri())
    settle(browser)
    press(browser, "rnnnn")  # without reads
    move(browser, *place_of_strongest(browser, 1))
    image = browser.find_element("css selector", "#tip canvas.shown")
    assert image.is_displayed() and image.get_attribute("width") == "5"
    assert complaints(browser) == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    """Two runs of a few minibatches: SAM, and an LSTM as its baseline."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("sam", "lstm"):
        settings = {"hidden_size": 8, **({"memory_size": 32, "word_size": 4} if name == "sam" else {})}
        config = RunConfig(
            model=ModelConfig(name, **settings), task=TaskConfig("copy", {"bits": 3, "max_size": 3}),
            steps=6, log_every=2, eval_every=2, eval_batches=1, tensorboard=False,
        )  # fmt: skip
        train(config, folder / f"copy-{name}-0", quiet=True)
    return [folder / "copy-sam-0", folder / "copy-lstm-0"]


def test_curves_stand_beside_chance_and_baselines(browser, runs, tmp_path):
    browser.get(write_page(runs, tmp_path / "page.html", size=3).as_uri())
    settle(browser)
    assert browser.find_element("id", "curves-frame").is_displayed()
    words = painted(browser, "curves")
    names = {line["name"] for line in curves_of(runs)["lines"]}
    assert len(names) == 2 and {*names, "chance", "bits per sequence over sequences seen"} <= set(words)
    assert complaints(browser) == []


def test_a_live_page_follows_its_run(browser, runs, tmp_path):
    with make_server([runs[0]], tmp_path / "page.html", size=2) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
        settle(browser)
        browser.execute_script("window.before = true")
        browser.execute_async_script("setTimeout(arguments[0], 2500)")  # it has asked for the version by now
        with (runs[0] / "log.jsonl").open("a") as log:
            log.write('{"kind": "note"}\n')
        WebDriverWait(browser, 30).until(lambda found: not found.execute_script("return window.before || false"))
        WebDriverWait(browser, 30).until(lambda found: text(found, "title") == "SAM on copy")
        assert complaints(browser) == []
        browser.get("about:blank")
        server.shutdown()


def test_ten_thousand_steps_stay_fluid(browser, tmp_path):
    torch.manual_seed(0)
    task = tasks.build("recall", bits=4, paired=True, cues=64)
    batch = task.sample_size(1, torch.Generator().manual_seed(0), 9_936)
    model = sparsam.SAM(task.input_size, task.output_size, hidden_size=16, memory_size=65_536, word_size=8, index="lsh")
    episode = record(model, batch, describe(task, batch), "long")
    file = tmp_path / "long.html"
    file.write_text(render("long", "", [episode]), encoding="utf-8")
    assert file.stat().st_size < 12_000_000
    browser.get(file.as_uri())
    settle(browser)
    # A frame is fluid when little is drawn in it, however many steps there are. Calls are counted, as times on a shared
    # machine say nothing. (Measured: 20 ms for the whole episode on one of two busy cores.)
    accesses, most = browser.execute_script(
        "const s = window.sparsam, n = s.episode.steps, made = CanvasRenderingContext2D.prototype;"
        "let calls = 0, most = 0;"
        "for (const name of ['fillRect', 'arc', 'stroke', 'strokeRect', 'fillText', 'drawImage']) {"
        " const plain = made[name]; made[name] = function (...a) { calls++; return plain.apply(this, a); }; }"
        "for (let k = 0; k < 24; k++) { const half = n / 2 * 0.75 ** k;"
        " s.look(n / 2 - half, n / 2 + half, 0, s.episode.rows.length);"
        " s.select(n / 2 | 0); calls = 0; s.draw(); most = Math.max(most, calls); }"
        "return [s.episode.time.length, most];"
    )
    assert accesses > 100_000
    assert most < 30_000
    assert complaints(browser) == []
