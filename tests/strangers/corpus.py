# ruff: noqa: E501 - one case a line
"""Files that nobody should trust: weights, headers, configs, logs and checkpoints that ask for code, memory or time.

`write(folder)` makes them all, each under the name of its case. A case says which entries have to refuse it, and what
their message has to say besides the file's name; the others may do with it what they like, as long as nothing runs.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

import sparsam
from sparsam import model_description
from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig
from sparsam.lab.training.loop import train

MODEL = {"hidden_size": 6, "memory_size": 16, "word_size": 4, "num_heads": 2, "k": 2}
STRICT = ("load", "info", "ask", "view", "hub")  # entries that read a description before they read anything else
CANARY = "canary"
EVIL = "evil_module"  # lies where Python looks for modules, and touches the canary when it is imported


@dataclass(frozen=True)
class Case:
    """`make` writes it to a path, a weights file or (`run`) a run's folder."""

    name: str
    make: Callable[[Path], None]
    says: str = ""
    refused: tuple[str, ...] = STRICT
    run: bool = False


def _benign() -> tuple[dict[str, torch.Tensor], dict[str, Any], dict[str, Any]]:
    torch.manual_seed(0)
    model = sparsam.SAM(4, 3, **MODEL)
    config = RunConfig(model=ModelConfig("sam", **MODEL), task=TaskConfig("copy", {"bits": 3, "max_size": 2}))
    return model.state_dict(), json.loads(model_description.describe(model).to_json()), config.to_dict()


TENSORS, DESCRIBED, CONFIG = _benign()


def _weights(described: Any = None, config: Any = None, **tensors: torch.Tensor | None) -> Callable[[Path], None]:
    """A weights file; texts are written as they are, other values as JSON, and tensors that are None left out."""

    def make(path: Path) -> None:
        metadata = {"format": "pt"}
        for key, value in (("sparsam_model", described), ("sparsam_config", config)):
            if value is not None:
                metadata[key] = value if isinstance(value, str) else json.dumps(value)
        kept = {name: value for name, value in {**TENSORS, **tensors}.items() if value is not None}
        path.write_bytes(save(kept, metadata))

    return make


def _with(**arguments: Any) -> Callable[[Path], None]:
    return _weights({**DESCRIBED, "arguments": {**DESCRIBED["arguments"], **arguments}})


def _config(**parts: Any) -> dict[str, Any]:
    """A run's config with some parts changed: `model={"k": 3}` changes the model's k."""
    merged = {
        k: {**CONFIG[k], **v} if isinstance(v, dict) and isinstance(CONFIG[k], dict) else v for k, v in parts.items()
    }
    return {**CONFIG, **merged}


def _raw(header: bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> Callable[[Path], None]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return lambda path: (
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data) and None
    )


def _tensor(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


class Touch:
    """Unpickled, it opens the canary for writing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (CANARY, "w")


POPEN = {"name": "subprocess:Popen", "settings": {"args": ["touch", CANARY]}}
OWN = {"name": f"{EVIL}:Task", "settings": {}}
LAYERED = {"input_layer.x": torch.zeros(1), **{f"model.{key}": value for key, value in TENSORS.items()}}
WITHOUT = dict.fromkeys(TENSORS)
DEEP = "[" * 5000
MODEL_KEY, CONFIG_KEY = "sparsam_model", "sparsam_config"
TO_ALL = (*STRICT, "eval")

DESCRIPTIONS = [
    Case("large_hidden_size", _with(hidden_size=14_000), r"controller\.weight_ih_l0: expected shape \(56000, 12\)"),
    Case("huge_hidden_size", _with(hidden_size=10**9), r"sparsam_model\.arguments\.hidden_size: expected an int in"),
    Case("many_layers", _with(num_layers=100_000), r"arguments\.num_layers: expected an int in 1\.\.256, got 100000"),
    Case("some_layers", _with(num_layers=250), r"controller\.weight_ih_l1: expected shape"),
    Case("huge_memory", _with(memory_size=10**18), r"arguments\.memory_size: expected an int"),
    Case("wide_words", _with(word_size=60_000), "expected shape"),
    Case("large_input", _with(input_size=2**20), "expected shape"),
    Case("empty_object", _weights({}), r"sparsam_model\.name: expected one of"),
    Case("empty_list", _weights("[]"), "sparsam_model: expected an object, got a list"),
    Case("null", _weights("null"), "sparsam_model: expected an object, got None"),
    Case("a_word", _weights('"sam"'), "sparsam_model: expected an object, got 'sam'"),
    Case("no_text", _weights(""), "sparsam_model: expected JSON"),
    Case("no_json", _weights("{'name': 'sam'}"), "sparsam_model: expected JSON"),
    Case("deep_lists", _weights(DEEP), "sparsam_model: expected plain JSON, got brackets nested too deeply"),
    Case("deep_objects", _weights('{"a":' * 5000), "sparsam_model: expected plain JSON"),
    Case("long_number", _weights('{"version": ' + "9" * 5000 + "}"), "sparsam_model: expected JSON"),
    Case("long_text", _weights({**DESCRIBED, "name": "x" * 2**21}), "sparsam_model: expected at most"),
    Case("unknown_model", _weights({**DESCRIBED, "name": "samm"}), r"\.name: .*got 'samm'; did you mean 'sam'"),
    Case("a_command_as_model", _weights({**DESCRIBED, "name": "subprocess:Popen"}), r"\.name: expected one of"),
    Case("a_module_as_model", _weights({**DESCRIBED, "name": f"{EVIL}:Task"}), r"\.name: expected one of"),
    Case("a_list_as_model", _weights({**DESCRIBED, "name": ["sam"]}), r"\.name: expected one of"),
    Case("list_of_arguments", _weights({**DESCRIBED, "arguments": [1, 2]}), r"\.arguments: expected an object"),
    Case("text_as_arguments", _weights({**DESCRIBED, "arguments": "k=2"}), r"\.arguments: expected an object"),
    Case("another_version", _weights({**DESCRIBED, "version": 99}), r"\.version: expected 1, got 99"),
    Case("a_task_beside", _weights({**DESCRIBED, "task": POPEN}), "sparsam_model: expected version, name.*got 'task'"),
    Case("unknown_argument", _with(hidden_sise=6), r"\.arguments: .*'hidden_sise'; did you mean 'hidden_size'"),
    Case("text_as_number", _with(hidden_size="6"), r"\.hidden_size: expected an int .*got '6'"),
    Case("truth_as_number", _with(k=True), r"\.k: expected an int .*got True"),
    Case("fraction_as_number", _with(num_heads=2.0), r"\.num_heads: expected an int"),
    Case("negative_number", _with(word_size=-4), r"\.word_size: expected an int"),
    Case("no_number", _with(delta=float("nan")), r"\.delta: expected a number"),
    Case("endless_number", _with(dropout=float("inf")), r"\.dropout: expected a number"),
    Case("more_read_than_there_is", _with(k=60_000), r"sparsam_model\.arguments\.k: "),
    Case("memory_read_whole", _with(memory_size=2**31 - 1, engine="reference"), "memory_size: expected at most"),
    Case("unknown_index", _with(index="lhs"), r"\.index: .*got 'lhs'; did you mean 'lsh'"),
    Case("a_command_as_index", _with(index={"index": "system", "settings": {}}), r"\.index\.index: expected one of"),
    Case("index_of_lists", _with(index=[[]]), r"\.index: expected an object"),
    Case("unknown_setting", _with(index={"index": "LSH", "settings": {"tabels": 1}}), "did you mean 'tables'"),
    Case("many_tables", _with(index={"index": "LSH", "settings": {"tables": 10**9}}), r"settings\.tables: expected"),
    Case(
        "index_in_index",
        _with(index={"index": "Auto", "settings": {"index": {"index": "Auto", "settings": {}}}}),
        r"index\.index\.index: expected one of",
    ),
    Case("a_module_as_controller", _with(controller=f"{EVIL}:Task"), r"\.controller: expected one of"),
    Case("own_controller", _with(controller="own"), r"\.controller: expected one of"),
    Case("a_module_as_engine", _with(engine=EVIL), r"\.engine: expected one of"),
    Case("a_start_of_code", _with(start={"__class__": EVIL}), r"\.start: "),
    Case("an_input_layer", _weights({**DESCRIBED, "input_layer": {"name": f"{EVIL}:Task"}}), r"input_layer\.name: "),
    Case(
        "large_input_layer",
        _weights({**DESCRIBED, "input_layer": {"name": "labelled_images", "arguments": {"channels": [10**6] * 9}}}),
        r"input_layer\.arguments\.side: expected a value",
    ),
]  # fmt: skip

CONFIGS = [
    Case("config_runs_a_command", _weights(None, _config(task=POPEN), **WITHOUT, **LAYERED), "input layer|--task subprocess:Popen", TO_ALL),
    Case("config_names_a_command", _weights(None, _config(task=POPEN)), "--task subprocess:Popen", ("eval",)),
    Case("config_names_a_module", _weights(None, _config(task=OWN)), f"--task {EVIL}:Task", ("eval",)),
    Case("config_beside", _weights(DESCRIBED, _config(task=OWN)), f"--task {EVIL}:Task", ("eval",)),
    Case("config_empty", _weights(None, {}), r"sparsam_config\.model: expected an object"),
    Case("config_list", _weights(None, "[]"), r"sparsam_config\.model: expected an object", STRICT),
    Case("config_deep", _weights(None, DEEP), "JSON", TO_ALL),
    Case("config_large", _weights(None, _config(model={"hidden_size": 14_000})), "expected shape", TO_ALL),
    Case("config_layers", _weights(None, _config(model={"num_layers": 100_000})), "num_layers: expected", TO_ALL),
    Case("config_index", _weights(None, _config(model={"index_settings": {"x": 1}})), "", TO_ALL),
    Case("config_extra", _weights(None, _config(model={"extra": [1]})), "extra: expected an object", TO_ALL),
    Case("config_model_list", _weights(None, _config(model=["sam"])), "model: expected an object", TO_ALL),
    Case("config_name_list", _weights(None, _config(model={"name": [1]})), "name: expected", TO_ALL),
    Case("config_unknown", _weights(None, _config(model={"hiden": 1})), "", TO_ALL),
    Case("config_threads", _weights(None, _config(threads=70_000)), "threads: expected", ("eval", "view", "ask")),
    Case("config_bits", _weights(None, _config(task={"settings": {"bits": 10**12}})), "bits", ("eval",)),
    Case("config_sizes", _weights(None, _config(task={"settings": {"max_size": 10**12}})), "max_size", ("eval", "view")),
    Case("config_scale", _weights(None, _config(task={"name": "babi", "settings": {"scale": [1]}})), "scale", ("ask", "view")),
    Case("config_task_path", _weights(None, _config(task={"name": "../../evil_module"})), "", ("eval",)),
    Case("config_task_module", _weights(None, _config(task={"name": EVIL})), "task", ("eval",)),
    Case("config_device", _weights(None, _config(device="x" * 10**5)), "", ()),
]  # fmt: skip


def _calibrated(text: str) -> Callable[[Path], None]:
    """Weights of a bAbI run with a calibration beside them."""

    def make(path: Path) -> None:
        _weights(DESCRIBED, _config(task={"name": "babi", "settings": {}}))(path)
        path.with_name(f"{path.stem}.calibration.json").write_text(text)

    return make


CALIBRATIONS = [
    Case(f"calibration_{name}", _calibrated(text), says, ("ask",))
    for name, text, says in (
        ("list", "[]", "calibration: expected an object"),
        ("deep", DEEP, "calibration: expected plain JSON"),
        ("unknown", '{"evil": 1}', "got 'evil'"),
        ("words", '{"temperature": "hot"}', "temperature: expected a number"),
        ("zero", '{"temperature": 0}', "temperature: expected a number"),
        ("endless", '{"questions": 1e999}', "questions: expected an int"),
    )
]

CONTENTS = [
    Case("nan", _weights(DESCRIBED, CONFIG, **{"output.bias": torch.full((3,), float("nan"))}), r"output\.bias.* not finite", TO_ALL),
    Case("infinity", _weights(DESCRIBED, CONFIG, **{"output.bias": torch.full((3,), float("inf"))}), r"output\.bias.* not finite", TO_ALL),
    Case("whole_numbers", _weights(DESCRIBED, CONFIG, **{"output.bias": torch.ones(3, dtype=torch.int32)}), r"output\.bias.*I32|int32", TO_ALL),
    Case("flags", _weights(DESCRIBED, CONFIG, **{"output.bias": torch.ones(3, dtype=torch.bool)}), r"output\.bias", TO_ALL),
    Case("a_tensor_less", _weights(DESCRIBED, CONFIG, **{"output.bias": None}), r"output\.bias", TO_ALL),
    Case("a_tensor_more", _weights(DESCRIBED, CONFIG, **{"output.bia": torch.ones(3)}), r"output\.bia", TO_ALL),
    Case("another_shape", _weights(DESCRIBED, CONFIG, **{"output.bias": torch.ones(4)}), r"output\.bias", TO_ALL),
    Case("no_tensors", _weights(DESCRIBED, CONFIG, **WITHOUT), "no such tensor|issing", TO_ALL),
    Case("no_description", _weights(), "does not say what model|carries no config|expected weights of"  , ("load", "eval", "view", "hub", "ask")),
    Case("empty_file", lambda path: path.write_bytes(b"") and None, "", (*TO_ALL, "weights")),
    Case("zeros", lambda path: path.write_bytes(bytes(64)) and None, "", (*TO_ALL, "weights")),
    Case("endless_header", _raw({}, length=2**63), "", (*TO_ALL, "weights")),
    Case("long_header", _raw({}, length=10**8), "", (*TO_ALL, "weights")),
    Case("header_of_deep_lists", _raw(DEEP.encode()), "", (*TO_ALL, "weights")),
    Case("header_of_deep_objects", _raw(b'{"a":' * 5000), "", (*TO_ALL, "weights")),
    Case("header_of_words", _raw(b"not JSON"), "", (*TO_ALL, "weights")),
    Case("header_of_numbers", _raw({"__metadata__": {MODEL_KEY: 3}}), "", (*TO_ALL, "weights")),
    Case("endless_tensor", _raw(_tensor(shape=(2**62, 2**62), offsets=(0, 2**62)), bytes(8)), "", (*TO_ALL, "weights")),
    Case("tensor_past_the_end", _raw(_tensor(shape=(10**9,), offsets=(0, 4 * 10**9)), bytes(8)), "", (*TO_ALL, "weights")),
    Case("negative_offsets", _raw(_tensor(offsets=(-4, 0)), bytes(8)), "", (*TO_ALL, "weights")),
    Case("unknown_numbers", _raw(_tensor("F99"), bytes(4)), "", (*TO_ALL, "weights")),
    Case("a_pickle", lambda path: path.write_bytes(pickle.dumps(Touch())) and None, "", (*TO_ALL, "weights")),
    Case("a_torch_file", lambda path: torch.save({"x": Touch()}, path), "", (*TO_ALL, "weights")),
    Case("cut", lambda path: (_weights(DESCRIBED, CONFIG)(path), path.write_bytes(path.read_bytes()[:-9]))[0], "", (*TO_ALL, "weights")),
]  # fmt: skip


def _edit(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A run whose file `name` (JSON) is changed."""

    def make(run: Path) -> None:
        (run / name).write_text(json.dumps(change(json.loads((run / name).read_text()))))

    return make


def _text(name: str, text: str) -> Callable[[Path], None]:
    return lambda run: (run / name).write_text(text) and None


def _no_checkpoints(weights: str) -> Callable[[Path], None]:
    def make(run: Path) -> None:
        _edit("config.json", lambda config: {**config, "weights": weights})(run)
        shutil.rmtree(run / "checkpoints")

    return make


def _forged(name: str, data: bytes) -> Callable[[Path], None]:
    """A run whose newest checkpoint has other content and a manifest that matches it."""

    def make(run: Path) -> None:
        place = sorted((run / "checkpoints").iterdir())[-1]
        (place / name).write_bytes(data)
        manifest = json.loads((place / checkpoint.MANIFEST).read_text())
        manifest["files"][name] = {"bytes": len(data), "crc32": zlib.crc32(data)}
        (place / checkpoint.MANIFEST).write_text(json.dumps(manifest))

    return make


def _in_every(name: str, text: str) -> Callable[[Path], None]:
    return lambda run: [place.joinpath(name).write_text(text) for place in (run / "checkpoints").iterdir()] and None


def _changed(**parts: Any) -> Callable[[Path], None]:
    """A run whose config.json has other parts."""
    return _edit("config.json", lambda config: {**config, **parts})


def _model(**settings: Any) -> Callable[[Path], None]:
    return _edit("config.json", lambda config: {**config, "model": {**config["model"], **settings}})


def _optimizer(rate: str) -> Callable[[Path], None]:
    """A run whose learning rate is written so."""

    def make(run: Path) -> None:
        text = json.dumps({**CONFIG, "optimizer": {**CONFIG["optimizer"], "learning_rate": "RATE"}})
        (run / "config.json").write_text(text.replace('"RATE"', rate))

    return make


def _statistics(name: str, value: Any) -> Callable[[Path], None]:
    """A run that is to go on, whose optimiser's statistic `name` is another one."""
    return _trainer(lambda state: state["learner"]["optimizer"]["state"][0].update({name: value}))


def _trainer(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def make(run: Path) -> None:
        _changed(steps=20)(run)
        state = torch.load(sorted((run / "checkpoints").iterdir())[-1] / "trainer.pt", weights_only=True)
        change(state)
        written = io.BytesIO()
        torch.save(state, written)
        _forged("trainer.pt", written.getvalue())(run)

    return make


def _pickled(call: bytes) -> Callable[[Path], None]:
    """A run whose trainer.pt holds these operations of a pickle."""

    def make(run: Path) -> None:
        written = io.BytesIO()
        torch.save({}, written)
        other = io.BytesIO()
        with zipfile.ZipFile(written) as old, zipfile.ZipFile(other, "w") as new:
            for entry in old.infolist():
                new.writestr(entry.filename, call if entry.filename.endswith(".pkl") else old.read(entry))
        _forged("trainer.pt", other.getvalue())(run)

    return make


def _pipe(name: str) -> Callable[[Path], None]:
    """A run with a pipe in place of a file; who reads it waits for ever."""

    def make(run: Path) -> None:
        _place(run, name).unlink(missing_ok=True)
        os.mkfifo(_place(run, name))

    return make


def _link(*names: str, to: str) -> Callable[[Path], None]:
    def make(run: Path) -> None:
        for name in names:
            _place(run, name).unlink(missing_ok=True)
            _place(run, name).symlink_to(to)

    return make


def _place(run: Path, name: str) -> Path:
    newest = sorted((run / "checkpoints").iterdir())[-1]
    return newest / name if (newest / name).exists() else run / name


def _holes(name: str) -> Callable[[Path], None]:
    """A run with a file of a terabyte that has no room on disk."""

    def make(run: Path) -> None:
        with open(_place(run, name), "ab") as file:
            file.truncate(1 << 40)

    return make


READ = ("config.json", "origin.json", "log.jsonl", "result.json", "manifest.json", "model.safetensors", "trainer.pt")
WRITTEN = (
    ".lock",
    "log.jsonl",
    "curves.png",
    "memory.png",
    "report.html",
    "report-curves.png",
    "report-memory.png",
    "report-view.html",
)
RESUME = ("resume",)
BOTH = ("resume", "plot")
RUNS = [
    Case("run_runs_a_command", _changed(task={**POPEN, "training": {}}), "--task subprocess:Popen|cannot change", RESUME),
    Case("run_names_a_module", _changed(task=OWN), f"--task {EVIL}:Task", RESUME),
    Case("run_has_a_logger", _changed(loggers=[f"{EVIL}:Task"]), f"--logger {EVIL}:Task", RESUME),
    Case("run_has_a_command_as_logger", _changed(loggers=["os:abort"]), "--logger os:abort", RESUME),
    Case("run_config_deep", _text("config.json", DEEP), "config: expected plain JSON", BOTH),
    Case("run_config_copies_deeply", _changed(task={"name": "copy", "settings": {"bits": json.loads("[" * 900 + "]" * 900)}}), "nested too deeply", BOTH),
    Case("run_long_number", _optimizer("1" + "0" * 400), "a whole number of 401", BOTH),
    Case("run_device", _changed(device="meta"), "device: expected", RESUME),
    Case("run_config_list", _text("config.json", "[]"), "config: expected an object", BOTH),
    Case("run_config_unknown", _changed(evil=1), "evil", BOTH),
    Case("run_config_types", _changed(steps="many"), "steps: expected int", BOTH),
    Case("run_large", _model(hidden_size=14_000), "hidden_size|expected shape", RESUME),
    Case("run_layers", _model(num_layers=100_000), "num_layers: expected an int in", BOTH),
    Case("run_batch", _changed(batch_size=10**12), "batch_size: expected at most", BOTH),
    Case("run_workers", _changed(workers=10**6), "workers: expected at most", BOTH),
    Case("run_threads", _changed(threads=70_000), "threads: expected at most", BOTH),
    Case("run_level", _changed(curriculum={"start": 10**12}), "curriculum.start: expected", BOTH),
    Case("run_outside", _changed(name="../../outside"), "name: expected the name of a folder", BOTH),
    Case("run_weights_from_the_hub", _no_checkpoints("hf:evil/evil"), "got the address", RESUME),
    Case("run_weights_from_afar", _no_checkpoints("https://evil.example/x"), "got the address", RESUME),
    Case("run_weights_here", _no_checkpoints("/dev/zero"), "", RESUME),
    Case("run_log_without_sequences", _text("log.jsonl", '{"kind": "train", "loss": 1}\n{"kind": "eval", "x": 2}\n'), "", ()),
    Case("run_log_of_words", _text("log.jsonl", '{"kind": "eval", "sequences": "a", "loss": [], "x": {}}\n[1]\n"x"\n'), "", ()),
    Case("run_log_deep", _text("log.jsonl", f"{DEEP}\n" * 20), "", ()),
    Case("run_log_without_numbers", _text("log.jsonl", '{"kind": "eval", "sequences": NaN, "x": 1e999}\n'), "", ()),
    Case("run_origin_list", _text("origin.json", "[]"), "", ()),
    Case("run_origin_words", _text("origin.json", '{"command": 3, "versions": [], "resumed": 5}'), "", ()),
    Case("run_result_deep", _text("result.json", DEEP), "", ()),
    Case("run_trainer_pickle", _forged("trainer.pt", pickle.dumps(Touch())), "", ()),
    Case("run_weights_pickle", _forged("model.safetensors", pickle.dumps(Touch())), "", ()),
    Case("run_manifest_deep", _in_every("manifest.json", DEEP), "manifest", ("resume", "load", "eval", "view")),
    Case("run_manifest_list", _in_every("manifest.json", "[]"), "manifest|damaged", ("resume", "load", "eval", "view")),
    Case("run_x<!--<script>", lambda run: None, "", ()),
    Case("run_x{{scripts}}", lambda run: None, "", ()),
]  # fmt: skip
RUNS += [Case(f"run_pipe_{name}", _pipe(name), "", ()) for name in (*READ, ".lock")]
RUNS += [Case(f"run_endless_{name}", _link(name, to="/dev/zero"), "", ()) for name in READ[1:3]]
RUNS += [Case(f"run_holes_{name}", _holes(name), "", ()) for name in READ[2:6:3]]
RUNS += [
    Case("run_links", _link(*WRITTEN, to=f"../{CANARY}"), "", ()),
    Case("run_statistics_short", _statistics("exp_avg", torch.zeros(1)), "exp_avg: expected torch.float32", RESUME),
    Case("run_statistics_of_ints", _statistics("exp_avg_sq", torch.zeros(736).long()), "exp_avg_sq: expected", RESUME),
    Case("run_statistics_spread", _statistics("exp_avg", torch.zeros(1).expand(736)), "exp_avg: expected", RESUME),
    Case("run_statistics_of_words", _statistics("exp_avg", ["a"]), "exp_avg: expected", RESUME),
    Case("run_statistics_unknown", _statistics("evil", torch.zeros(736)), "expected step, exp_avg", RESUME),
    Case("run_trainer_window", _trainer(lambda state: state.update(window="x")), "other values in window", RESUME),
    Case("run_trainer_seconds", _trainer(lambda state: state.update(seconds=10**400)), "other values in seconds", RESUME),
    Case("run_trainer_learner", _trainer(lambda state: state.update(learner=[1])), "other values in learner", RESUME),
    Case("run_trainer_bytes", _pickled(b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x80\x00\x85R."), "", ()),
    Case("run_log_of_formulas", _text("log.jsonl", '{"kind": "eval", "step": 1, "sequences": 1, "$\\\\foo{$": 1.0}\n'), "", ()),
    Case("run_log_of_halves", _text("log.jsonl", '{"kind": "eval", "step": 1, "sequences": 1, "\\ud800": 1.0}\n'), "", ()),
    Case("run_origin_moves_the_cursor", _text("origin.json", json.dumps({"versions": {"torch": "\x1b[2J\n" + "x" * 10**5}})), "made with torch", RESUME),
]  # fmt: skip
RUNS = [Case(case.name, case.make, case.says, case.refused, run=True) for case in RUNS]
CASES = [*DESCRIPTIONS, *CONFIGS, *CALIBRATIONS, *CONTENTS, *RUNS]


def write(folder: Path) -> None:
    """All cases below `folder`, a good file and a good run to warm up with, and the module that no file may import."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{EVIL}.py").write_text(f"open({CANARY!r}, 'w').close()\nclass Task: pass\n")
    config = RunConfig.from_dict({**CONFIG, "steps": 4, "eval_batches": 1, "checkpoint_every": 2, "tensorboard": False})
    train(config, folder / "good_run", quiet=True)
    _weights(DESCRIBED, _config(task={"settings": {"bits": 3, "max_size": 2}}))(folder / "good.safetensors")
    for case in CASES:
        if case.run:
            shutil.copytree(folder / "good_run", folder / case.name, symlinks=True)
        case.make(folder / (case.name if case.run else f"{case.name}.safetensors"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
