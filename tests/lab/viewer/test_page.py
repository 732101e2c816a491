"""The page as data: what an episode keeps, its size, the labels of each task, and the server of --live."""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
import urllib.error
import urllib.request
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import sparsam
from sparsam.lab import tasks
from sparsam.lab.cli import main
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig
from sparsam.lab.training.loop import train
from sparsam.lab.viewer.episode import record
from sparsam.lab.viewer.live import make_server
from sparsam.lab.viewer.page import curves_of, episodes_of, render, write_page
from sparsam.lab.viewer.tasks import STORIES, describe, draw, story_batch


def unpacked(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def model_for(task, **settings):
    settings = {"hidden_size": 6, "memory_size": 64, "word_size": 4, "num_heads": 2, "k": 2, **settings}
    return sparsam.SAM(task.input_size, task.output_size, **settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a few minibatches."""
    folder = tmp_path_factory.mktemp("runs") / "copy-sam-0"
    config = RunConfig(
        model=ModelConfig("sam", hidden_size=8, memory_size=32, word_size=4, num_heads=2),
        task=TaskConfig("copy", {"bits": 3, "max_size": 3}),
        steps=6, log_every=2, eval_every=2, eval_batches=1, tensorboard=False,
    )  # fmt: skip
    train(config, folder, quiet=True)
    return folder


def test_accesses_are_those_of_the_trace():
    task = tasks.build("copy", bits=3)
    batch = task.sample_size(1, torch.Generator().manual_seed(0), 4)
    model = model_for(task)
    values = record(model, batch, describe(task, batch), "x").to_dict()
    trace = model.trace(batch.inputs)
    trace = trace.select(trace.weight > 0.002)
    rows = unpacked(values["rows"], "<u4")[unpacked(values["row"], "<u4")]
    tags = unpacked(values["tag"], "<u1")
    weights = unpacked(values["weight"], "<u2") / 65535
    mine = sorted(
        zip(unpacked(values["time"], "<u4").tolist(), tags.tolist(), rows.tolist(), weights.round(3).tolist())
    )
    tag = 2 * trace.head + trace.kind
    theirs = sorted(zip(trace.time.tolist(), tag.tolist(), trace.row.tolist(), trace.weight.numpy().round(3).tolist()))
    assert [entry[:3] for entry in mine] == [entry[:3] for entry in theirs]
    assert np.allclose([entry[3] for entry in mine], [entry[3] for entry in theirs], atol=2e-3)
    assert values["answers"] == [5, 6, 7, 8] and values["labels"][4] == "delimiter"


@pytest.mark.parametrize(
    ("name", "settings", "size", "group"),
    [
        ("copy", {"bits": 3}, 5, r"item 1: [01]{3}$"),
        ("sort", {"bits": 3}, 5, r"key 1: [01]{3}, priority [+-]\d"),
        ("recall", {"bits": 3}, 4, r"pair 1: [01]{3} -> [01]{3}$"),
        ("recall", {"bits": 3, "item_length": 2, "cues": 2}, 4, r"pair 1: [01]{3} [01]{3} -> "),
        ("recall", {"bits": 4, "paired": True, "cues": 2}, 6, r"pair 1: [01]{4} -> [01]{4}$"),
    ],
)
def test_every_step_of_a_task_has_a_name(name, settings, size, group):
    task = tasks.build(name, **settings)
    batch = draw(task, size, 0)
    steps = describe(task, batch)
    assert len(steps.labels) == len(steps.group_of) == len(batch.inputs)
    assert max(steps.group_of) < len(steps.groups)
    assert re.match(group, steps.groups[0])


def test_stories_are_read_in_both_formats():
    batch, steps = story_batch(STORIES[0], scale=2.0)
    assert steps.labels[:6] == ["mary", "went", "to", "the", "kitchen", "."]
    assert int(batch.mask.sum()) == 3 and float(batch.inputs.max()) == 2.0
    batch, steps = story_batch("Mary went to the kitchen.\nWhere is Mary?\n")
    assert steps.groups == ["Mary went to the kitchen.", "Where is Mary?"]
    assert int(batch.mask.sum()) == 1 and int(batch.targets.max()) == -1


def test_the_stories_of_the_package_are_answered_right():
    episodes, title, about = episodes_of("babi-sam", None, 1, 0, None)
    assert title == "SAM on babi" and "2,048 words" in about and len(episodes) == len(STORIES)
    for episode in episodes:
        values = episode.to_dict()
        right = unpacked(values["targets"]["values"], "<i4")
        given = unpacked(values["predictions"]["values"], "<i4")
        assert all(right[t] == given[t] for t in values["answers"])


def test_a_task_of_ones_own_is_shown_by_its_steps():
    class Mine:
        name, input_size, output_size = "mine", 2, 2

    batch = tasks.Batch(torch.rand(5, 1, 2), torch.zeros(5, 1, dtype=torch.int64), torch.ones(5, 1, dtype=torch.bool))
    steps = describe(Mine(), batch)
    assert steps.labels == ["0", "1", "2", "3", "4"]
    with pytest.raises(ValueError, match="size: expected a task whose sequences have a size, got mine"):
        draw(Mine(), 4, 0)


def test_omniglot_shows_its_images():
    class Shown:
        name, labels, input_size = "omniglot", 3, 3 + 16

    info = {"presentation": torch.tensor([[0], [1]])}
    mask = torch.ones(2, 1, dtype=torch.bool)
    batch = tasks.Batch(torch.rand(2, 1, 19), torch.tensor([[1], [2]]), mask, info=info)
    steps = describe(Shown(), batch)
    assert steps.images.shape == (2, 4, 4) and steps.groups[1] == "label 2, presentation 2"
    values = record(model_for(type("T", (), {"input_size": 19, "output_size": 3})), batch, steps, "x").to_dict()
    assert (values["images"]["width"], values["images"]["height"]) == (4, 4)
    assert len(unpacked(values["images"]["values"], "<u1")) == 32 and "inputs" not in values


def test_page_of_a_run_is_one_file_with_its_curves(run, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["view", str(run), "--size", "3", "--sequences", "2"])
    assert not ended.value.code and "view.html" in capsys.readouterr().out
    page = (run / "view.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)""", page) and "@import" not in page and "{{" not in page
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["episodes"]) == 2 and data["episodes"][0]["steps"] == 7
    (line,) = data["curves"]["lines"]
    assert line["measure"] == "bits_per_sequence" and len(line["points"]) == 3 and line["loss"]
    assert data["curves"]["chance"] == pytest.approx(3.0)
    assert len(curves_of([run, run])["lines"]) == 2 and curves_of(["babi-sam"]) is None


def test_nothing_grows_with_the_memory():
    task = tasks.build("copy", bits=3)
    batch = draw(task, 5, 0)
    sizes = []
    for words in (1_000, 1_000_000):
        torch.manual_seed(0)
        model = model_for(task, memory_size=words)
        sizes.append(len(render("x", "", [record(model, batch, describe(task, batch), "x")])))
    assert abs(sizes[0] - sizes[1]) < 100


def test_text_in_a_story_cannot_leave_its_place(tmp_path):
    page = render("</title><b>", "x", [])
    assert "</title><b>" not in page.replace("<\\/", "")


class Scripts(HTMLParser):
    """The scripts of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.found.append("")

    def handle_data(self, data):
        if self.found and self.get_starttag_text().startswith("<script"):
            self.found[-1] += data


@pytest.mark.parametrize(
    "name", ["x<!--<script>", "x{{scripts}}", "x</script><script>alert(1)</script>", "\u2028&amp;"]
)
def test_a_name_is_data_wherever_it_stands(name):
    """What is in the name ends no script, opens no comment, is replaced by nothing, and comes back as it was."""
    curves = {"measure": name, "lines": [{"name": name, "measure": "loss", "points": [], "loss": []}], "chance": None}
    page = render(name, name, [], curves)
    scripts = Scripts(page).found
    data = json.loads(scripts[0])
    assert len(scripts) == 2 and "{{" not in scripts[1] and "alert(1)" not in scripts[1]
    assert (data["title"], data["curves"]["lines"][0]["name"]) == (name, name)
    assert not set("<>&\u2028\u2029") & set(scripts[0])
    assert scripts[1] == Scripts(render("x", "x", [])).found[1]


def test_lines_of_a_log_without_numbers_are_left_out(run, tmp_path):
    with (run / "log.jsonl").open("a") as log:
        strange = (
            '{"kind": "train", "step": 1, "loss": 0.5}',
            '{"kind": "eval", "bits_per_sequence": NaN}',
            '{"kind": "train", "sequences": "8", "loss": [1]}',
            '{"kind": "eval", "sequences": 1e999}',
        )
        for line in strange:
            log.write(line + "\n")
    before = curves_of([run])
    page = write_page([run], tmp_path / "page.html", size=2)
    assert json.loads(Scripts(page.read_text()).found[0])["curves"] == json.loads(json.dumps(before))


def test_mistakes(tmp_path, capsys, run):
    with pytest.raises(SystemExit) as ended:
        main(["view", str(run), "--story", str(tmp_path / "x")])
    assert ended.value.code == 2 and "expected for bAbI runs only" in capsys.readouterr().err


def test_live_server_is_local_and_follows_the_run(run, tmp_path):
    with make_server([run], tmp_path / "page.html", size=2) as server:
        assert server.server_address[0] == "127.0.0.1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"

        def get(path):
            with urllib.request.urlopen(address + path, timeout=60) as answer:
                return answer.read().decode()

        assert '"live":true' in get("/")
        before = get("/version")
        with (run / "log.jsonl").open("a") as log:
            log.write('{"kind": "note"}\n')
        assert get("/version") != before
        with pytest.raises(urllib.error.HTTPError):
            get("/etc/passwd")
        with (run / "log.jsonl").open("a") as log:
            log.write('{"kind": "train", "step": 3, "loss": 0.5}\n')
        assert '"live":true' in get("/")
        server.shutdown()


@pytest.mark.parametrize(
    ("host", "answered"),
    [("localhost:80", True), ("127.0.0.1", True), ("[::1]:8765", True), ("LOCALHOST", True), ("evil.example", False),
     ("localhost.evil.example", False), ("127.0.0.1.evil.example:80", False), ("", False), ("localhost:80@x", False)],
)  # fmt: skip
def test_only_names_of_this_machine_are_answered(run, tmp_path, host, answered):
    with make_server([run], tmp_path / "page.html", size=2) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection(*server.server_address)
        for path in ("/version", "/"):
            connection.putrequest("GET", path, skip_host=True)
            connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            assert answer.status == (200 if answered else 403) and (b"live" in answer.read()) == (
                answered and path == "/"
            )
            if answer.will_close:
                connection.close()
        server.shutdown()


def test_live_server_waits_for_the_first_checkpoint(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with make_server([tmp_path / "run"], tmp_path / "page.html") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/", timeout=60) as answer:
            assert "Waiting for a checkpoint" in answer.read().decode()
        server.shutdown()


def test_lstm_has_a_page_without_memory(tmp_path):
    from sparsam.lab.training.checkpoint import weights_to_bytes

    config = RunConfig(model=ModelConfig("lstm", hidden_size=4), task=TaskConfig("copy", {"bits": 3}))
    model = sparsam.LSTM(4, 3, hidden_size=4)
    (tmp_path / "x.safetensors").write_bytes(weights_to_bytes(model.state_dict(), config.to_json()))
    assert write_page([tmp_path / "x.safetensors"], tmp_path / "x.html", size=3).stat().st_size > 10_000
