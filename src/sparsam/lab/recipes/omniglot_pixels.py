"""SAM paper, figure on Omniglot, from pixels: a small convolutional encoder before every model.

The encoder is trained first, by itself and on training characters only (`omniglot_encoder`), once for each seed; all
models of that seed begin with it. Then a model learns what to do with its features, by a curriculum from 8 to 128
characters, and for the last fifth of the run the encoder learns with it, at a tenth of the rate. All models have
the same data, augmentation, encoder, rates and time.

What differs from the paper (`DIFFERENCES`) is explained in `tasks.omniglot.labelled_images` and, for labels from the
level's own up to level 32 (`pool`) and characters that are mirrored and bent (`variety`), in `tasks.omniglot.episodes`.
Models with a memory begin with weights that give every image a word of its own and look up by what they write
(`START`).

On a GPU: `--set device=cuda --set task.training.device=cuda`, which draws the episodes there as well. With
`--set weights=FILE` no encoder is trained: all runs begin with that of FILE, a model's weights or a run's folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.recipes.omniglot_encoder import load_encoder, nearest_neighbour, save_encoder, train_encoder
from sparsam.lab.recipes.tables import spread, table
from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.files import write_atomic
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.trained import first_weights
from sparsam.start import Start

PREFIX, NEAREST = "omniglot-pixels-", "nearest neighbour, "
END_TO_END = "-end-to-end"
THRESHOLD = 1.3  # nats a step: about twice the floor of 0.62 with 500 labels (`Omniglot.floor`); 6.2 is knowing nothing
SIZES = (10, 25, 50, 100, 200, 350, 500)
TASK = TaskConfig(
    "omniglot_pixels",
    {"labels": 500, "label_size": 32, "fixed_norm": True, "evaluation_size": 100, "evaluation_episodes": 8},
    # One size for each level: the dense models' GPU graphs are made for each size anew.
    training={"pool": 1.0, "pool_below": 64, "min_share": 1.0, "variety": 0.1},
)
# A word has room for the features of an image and its label; a controller without a past asks about an image in the
# same way whatever came before it. Each write head takes a word for each image, and 128 words are soon used up: the
# dense models have one.
_SIZES: dict[str, Any] = {"hidden_size": 256, "word_size": 128, "extra": {"controller": "feedforward"}}
_SPARSE: dict[str, Any] = {"memory_size": 4096, "k": 8, "num_heads": 2, **_SIZES}
_DENSE: dict[str, Any] = {"memory_size": 128, "num_heads": 1, **_SIZES}
MODELS = {
    "sam": ModelConfig("sam", **_SPARSE),
    "sdnc": ModelConfig("sdnc", **_SPARSE),
    "dam": ModelConfig("dam", **_DENSE),
    "ntm": ModelConfig("ntm", **_DENSE),
    "dnc": ModelConfig("dnc", **_DENSE),
    "lstm": ModelConfig("lstm", hidden_size=400),
}
# The same rule for all, in the words of each memory: write to a row of its own, and look up by what is written.
_OPEN = Start(write=1.0, reuse=-2.0, sharpness=2.0, words=2.0, tied=True)
START = {
    "sam": _OPEN,
    "sdnc": _OPEN,
    "dam": _OPEN,
    "ntm": dataclasses.replace(_OPEN, lookup=3.0, walk=3.0),
    "dnc": dataclasses.replace(_OPEN, lookup=3.0),
}
LEVEL = CurriculumConfig(start=8, threshold=THRESHOLD, patience=50)
# What an LSTM has learned of some labels does not hold for others, so it has all of them from the start. With 500
# labels it learns something of four characters, and 1.3 nats are out of its reach.
LEVELS = {"lstm": CurriculumConfig(start=4, threshold=2.2, patience=50)}
LABELS = {"lstm": {"pool": 0.0}}
EPISODES = {10: 100, 25: 100, 50: 100, 100: 100}  # the same for all models and for the nearest neighbour
FEWER_EPISODES = 16  # of every other size
TEST_MEMORY = 16_384  # words of the sparse models when tested: 500 characters write 10,000
CLAIM = "SAM names 100 new characters, each shown 10 times, with an error below 0.2, and 500 far better than chance"
PROTOCOL = (
    "1,200 minibatches of 32 episodes for every model, by a curriculum from 8 to 128 characters, for the LSTM from 4; "
    "100 test episodes of each size up to 100 characters and 16 of each larger one, with characters that occur neither "
    "in training nor in validation. A model can only guess the first presentation of a character, so the floor is 0.1."
)
DIFFERENCES = (
    "A convolutional encoder is trained beforehand on the training characters; the paper feeds pixels to the models.",
    "The controller is feed-forward wherever there is a memory, and the last image comes beside its label.",
    "Label vectors in place of one-hot labels.",
    "First weights of our own, by one rule for all memories: a word for each image, looked up by what was written.",
    "Dense models have 128 words and one head; the LSTM begins with 4 characters and all labels.",
    "Training characters are mirrored and bent.",
    "Adam with rate 3e-3, falling to 1e-4; for every model first weights, heads and levels were chosen on "
    "validation characters, by trials of a few hundred minibatches.",
)
# Rounds of the encoder's training, minibatches and first rate of each, and characters in a minibatch.
ROUNDS, CHARACTERS = ((2200, 3e-3), (1450, 2e-3)), 400
STEPS = 1_200  # minibatches of a run that has no budget of time


@register
def omniglot_pixels(
    seeds: int = 3,
    budget: float | None = None,
    models: Sequence[str] = tuple(MODELS),
    max_level: int = 128,
    steps: int | None = None,
) -> Experiment:
    """`steps` minibatches of training for each run, at most `budget` seconds where they are given; all models alike.

    The rate falls by minibatches, or with a budget by time. A model `NAME-end-to-end` begins with a fresh encoder and
    trains it from the first minibatch on.
    """
    if steps is None:
        steps = STEPS if budget is None else 1_000_000

    def config(task: str, name: str) -> RunConfig:
        model = name.removesuffix(END_TO_END)
        alone = name != model
        return RunConfig(
            model=MODELS[model].beginning(START.get(model, "plain")),
            task=dataclasses.replace(
                TASK,
                settings=TASK.settings | {"fixed_norm": not alone},
                training=TASK.training | LABELS.get(model, {}),
            ),
            optimizer=OptimizerConfig(
                "adam",
                learning_rate=3e-3,
                warmup=50,
                clip=1.0,
                patience=100,
                final_rate=1e-4,
                final_by="steps" if budget is None else "seconds",
                hold=steps * 2 // 5,
                hold_share=0.4,
                input_layer_from=0.0 if alone else 0.8,
                input_layer_rate=1.0 if alone else 0.1,
            ),
            curriculum=dataclasses.replace(LEVELS.get(model, LEVEL), max_level=max_level),
            batch_size=32,
            steps=steps,
            seconds=budget,
            eval_every=500,
            eval_batches=1,
            eval_batch_size=8,
            checkpoint_every=100,
            log_every=50,
        )

    runs = grid(config, [PREFIX.removesuffix("-")], models, seeds)
    title = "One-shot recognition on Omniglot, from pixels"
    words = (CLAIM, PROTOCOL, DIFFERENCES)
    return Experiment("omniglot-pixels", title, runs, None, (), {}, train_encoders, *words, True, _neighbours)


def encoder_file(out: str | Path, seed: int) -> Path:
    return Path(out) / "encoders" / f"{seed}.safetensors"


def train_encoders(experiment: Experiment, out: Path) -> None:
    """Train the encoder of each seed that has none yet, or take that of the weights that were given, and let the runs
    begin with it."""
    for name, config in experiment.runs.items():
        if name.rpartition("-")[0].endswith(END_TO_END):
            experiment.runs[name] = dataclasses.replace(config, weights=None)
            continue
        file = encoder_file(out, config.seed)
        if not file.exists() and config.weights is not None:
            given = load_encoder(config.task.build(), first_weights(config.weights))
            save_encoder(given, file, {"from": Path(config.weights).name})
        if not file.exists():
            task = config.task.build(for_training=True)
            layer, first, rounds = None, 0, []
            for steps, rate in ROUNDS:
                limit = min(steps, config.steps)  # a run of a few minibatches, as when a recipe is tried out
                where = {"device": config.device, "variety": task.variety}
                layer, about = train_encoder(
                    task, config.seed, limit, CHARACTERS, start=layer, top_rate=rate, first=first, **where
                )
                first += limit
                rounds.append(about)
            assert layer is not None
            save_encoder(layer, file, {"rounds": rounds})
        experiment.runs[name] = dataclasses.replace(config, weights=str(file))


def episodes_of(size: int) -> int:
    """Test episodes of `size` characters."""
    return EPISODES.get(size, FEWER_EPISODES)


def evaluate_run(
    run: str | Path,
    split: str = "test",
    sizes: Sequence[int] = SIZES,
    episodes: int | None = None,
    batch_size: int = 25,
    device: str | None = None,
) -> dict[str, Any]:
    """Errors by number of characters and presentation of a run's newest checkpoint, kept as `{split}.json`; the sparse
    models have `TEST_MEMORY` words. What was measured of this checkpoint is not measured again."""
    from sparsam.lab.training.trained import load_model, read_trained

    file, steps = Path(run) / f"{split}.json", checkpoint.steps(Path(run) / "checkpoints")
    result: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    of = {"minibatches": steps[-1] if steps else None}
    wanted: dict[int, dict[str, Any]] = {size: of | {"episodes": episodes or episodes_of(size)} for size in sizes}
    missing = [size for size in sizes if not wanted[size].items() <= result.get(str(size), {}).items()]
    if not missing:
        return result
    config = read_trained(run)[1]
    larger = [f"model.memory_size={TEST_MEMORY}"] if config.model.k else []
    model, task, config = load_model(run, larger)
    place = config.device if device is None else device
    model.to(place).eval()
    for size in missing:
        tested = task.evaluate(model, split, batch_size, size, wanted[size]["episodes"], place)
        result[str(size)] = tested.measured() | wanted[size]
        if Path(run).is_dir():
            write_atomic(file, (json.dumps(result, indent=2) + "\n").encode())
    return result


def neighbours(
    config: RunConfig,
    file: Path | None,
    split: str = "test",
    sizes: Sequence[int] = SIZES,
    episodes: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """The nearest neighbour on pixels, or on the features of the encoder in `file`, as in `evaluate_run`."""
    task = config.task.build()
    layer = None if file is None else load_encoder(task, file).to(device)
    wanted = {size: episodes_of(size) if episodes is None else episodes for size in sizes}
    return {
        str(size): nearest_neighbour(task, layer, split, size, number, device).measured()
        for size, number in wanted.items()
    }


def report(
    out: str | Path, sizes: Sequence[int] = SIZES, episodes: int | None = None, device: str | None = None
) -> str:
    """The mean test error by number of characters of all runs under `out` that have a checkpoint, and of the nearest
    neighbour on their input. What was measured goes to results.json.

    A run that was cut off is tested with its newest checkpoint; its minibatches say how far it came.
    """
    out = Path(out)
    runs = {path.name.removeprefix(PREFIX): RunFolder(path) for path in sorted(out.glob(f"{PREFIX}*"))}
    reached = {name: checkpoint.whole_steps(folder.checkpoints) for name, folder in runs.items()}
    runs = {name: folder for name, folder in runs.items() if reached[name]}
    if not runs:
        raise ValueError(f"{out} holds no run of omniglot-pixels with a checkpoint")
    results: dict[str, Any] = {}
    for name, folder in runs.items():
        where = device or _device(folder.config())
        test = evaluate_run(folder.path, "test", sizes, episodes, device=where)
        validation = evaluate_run(folder.path, "validation", sizes[-1:], episodes, device=where)
        error = validation[str(sizes[-1])]["error"]
        results[name] = {"minibatches": reached[name][-1], "test": test, "validation": error}
    config = next(iter(runs.values())).config()
    encoders = {file.read_bytes(): file for file in sorted(out.glob("encoders/*.safetensors"), reverse=True)}
    inputs = {"pixels": None} | {f"encoder {file.stem}": file for file in reversed(encoders.values())}
    kept = _kept(out / "results.json").get("neighbours", {})
    near = {}
    for name, file in inputs.items():
        title = NEAREST + name
        found = kept.get(title, {})
        missing = [size for size in sizes if str(size) not in found]
        where = device or _device(config)
        near[title] = found | neighbours(config, file, "test", missing, episodes, where)
    (out / "results.json").write_text(json.dumps({"runs": results, "neighbours": near}, indent=2) + "\n")
    seeds: dict[str, list[dict[str, Any]]] = {}
    for name, result in results.items():
        seeds.setdefault(name.rpartition("-")[0], []).append(result)
    rows = []
    for name, found in (seeds | {name: [{"test": tested}] for name, tested in near.items()}).items():
        steps = sorted({entry["minibatches"] for entry in found if "minibatches" in entry})
        errors = (spread([entry["test"][str(size)]["error"] for entry in found], 3) for size in sizes)
        rows.append(
            [name, len(found), " to ".join(f"{step:,}" for step in dict.fromkeys(steps[:1] + steps[-1:])), *errors]
        )
    return table(["model", "seeds", "minibatches", *map(str, sizes)], rows)


def _device(config: RunConfig) -> str:
    """Where a run was trained, if that is here: runs of a GPU can be tested without one."""
    return config.device if torch.device(config.device).type == "cpu" or torch.cuda.is_available() else "cpu"


def _neighbours(out: Path) -> dict[str, Any]:
    """Of the record: the nearest neighbour, by what it looks at."""
    found = _kept(out / "results.json").get("neighbours", {})
    return {"neighbours": {name.removeprefix(NEAREST): tested for name, tested in found.items()}} if found else {}


def _kept(file: Path) -> dict[str, Any]:
    """What was measured before."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return kept
