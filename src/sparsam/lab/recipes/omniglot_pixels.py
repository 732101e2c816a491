"""SAM paper, figure on Omniglot, from pixels: a small convolutional encoder before every model.

The encoder is trained first, by itself and on training characters only (`omniglot_encoder`), once for each seed; all
models of that seed begin with it. Then a model learns what to do with its features, by a curriculum from 8 to 128
characters, and for the last fifth of the run the encoder learns with it, at a tenth of the rate. All models have
the same data, augmentation, encoder, rates and time.

What differs from the paper (`DIFFERENCES`) is explained in `tasks.omniglot.labelled_images` and, for labels from the
level's own up to level 32 (`pool`) and characters that are mirrored and bent (`variety`), in `tasks.omniglot.episodes`.
SAM, SDNC and DAM begin with weights that write into unused words and look up by what they write (`START`).

On a GPU: `--set device=cuda --set task.training.device=cuda`, which draws the episodes there as well.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.recipes.omniglot_encoder import load_encoder, nearest_neighbour, save_encoder, train_encoder
from sparsam.lab.recipes.tables import spread, table
from sparsam.lab.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.start import Start

PREFIX = "omniglot-pixels-"
THRESHOLD = 1.3  # nats a step: about twice the floor of 0.62 with 500 labels (`Omniglot.floor`); 6.2 is knowing nothing
SIZES = (10, 25, 50, 100, 200, 350, 500)
TASK = TaskConfig(
    "omniglot_pixels",
    {"labels": 500, "label_size": 32, "fixed_norm": True, "evaluation_size": 100, "evaluation_episodes": 8},
    # One size for each level: the dense models' GPU graphs are made for each size anew.
    training={"pool": 1.0, "pool_below": 64, "min_share": 1.0, "variety": 0.1},
)
# A word has room for the features of an image and its label; a controller without a past asks about an image in the
# same way whatever came before it.
_SIZES: dict[str, Any] = {"hidden_size": 256, "word_size": 128, "num_heads": 2, "extra": {"controller": "feedforward"}}
MODELS = {
    "sam": ModelConfig("sam", memory_size=4096, k=8, **_SIZES),
    "sdnc": ModelConfig("sdnc", memory_size=4096, k=8, **_SIZES),
    "dam": ModelConfig("dam", memory_size=128, **_SIZES),
    "ntm": ModelConfig("ntm", memory_size=128, **_SIZES),
    "lstm": ModelConfig("lstm", hidden_size=400),
}
START = {model: Start(write=1.0, reuse=-2.0, sharpness=2.0, words=2.0, tied=True) for model in ("sam", "sdnc", "dam")}
EPISODES = 16  # of each size, the same for all models and for the nearest neighbour
TEST_MEMORY = 16_384  # words of the sparse models when tested: 500 characters write 10,000
CLAIM = "SAM names 100 new characters, each shown 10 times, with an error below 0.2, and 500 far better than chance"
PROTOCOL = (
    "1,200 minibatches of 32 episodes for every model, by a curriculum from 8 to 128 characters; 16 test episodes of "
    "up to 100 characters, 8 of 200 and 4 of 500, with characters that occur neither in training nor in validation. A "
    "model can only guess the first presentation of a character, so the floor is 0.1."
)
DIFFERENCES = (
    "A convolutional encoder is trained beforehand on the training characters; the paper feeds pixels to the models.",
    "The controller is feed-forward wherever there is a memory, and the last image comes beside its label.",
    "Label vectors in place of one-hot labels, and initial weights of our own.",
    "Training characters are mirrored and bent.",
    "Adam with rate 3e-3, falling to 1e-4, chosen on SAM.",
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

    The rate falls by minibatches, or with a budget by time.
    """
    if steps is None:
        steps = STEPS if budget is None else 1_000_000

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=MODELS[model].beginning(START.get(model, "plain")),
            task=TASK,
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
                input_layer_from=0.8,
                input_layer_rate=0.1,
            ),
            curriculum=CurriculumConfig(start=8, threshold=THRESHOLD, patience=50, max_level=max_level),
            batch_size=32,
            steps=steps,
            seconds=budget,
            eval_every=500,
            eval_batches=1,
            eval_batch_size=8,
            checkpoint_every=500,
            log_every=50,
        )

    runs = grid(config, [PREFIX.removesuffix("-")], models, seeds)
    title = "One-shot recognition on Omniglot, from pixels"
    words = (CLAIM, PROTOCOL, DIFFERENCES)
    return Experiment("omniglot-pixels", title, runs, None, (), {}, train_encoders, *words)


def encoder_file(out: str | Path, seed: int) -> Path:
    return Path(out) / "encoders" / f"{seed}.safetensors"


def train_encoders(experiment: Experiment, out: Path) -> None:
    """Train the encoder of each seed that has none yet, and let the runs begin with it."""
    for name, config in experiment.runs.items():
        file = encoder_file(out, config.seed)
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


def evaluate_run(
    run: str | Path,
    split: str = "test",
    sizes: Sequence[int] = SIZES,
    episodes: int = EPISODES,
    batch_size: int = 8,
    device: str | None = None,
) -> dict[str, Any]:
    """Errors by number of characters and presentation of a run's newest checkpoint, kept as `{split}.json`; the sparse
    models have `TEST_MEMORY` words."""
    from sparsam.lab.training.trained import load_model, read_trained

    config = read_trained(run)[1]
    larger = [f"model.memory_size={TEST_MEMORY}"] if config.model.k else []
    model, task, config = load_model(run, larger)
    place = config.device if device is None else device
    model.to(place).eval()
    result = {}
    for size in sizes:
        table = task.evaluate(model, split, batch_size, size, episodes, place)
        result[str(size)] = {"error": table.summary()["error_rate"], "by_presentation": table.errors}
        if Path(run).is_dir():
            (Path(run) / f"{split}.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def neighbours(
    config: RunConfig,
    file: Path | None,
    split: str = "test",
    sizes: Sequence[int] = SIZES,
    episodes: int = EPISODES,
    device: str = "cpu",
) -> dict[str, Any]:
    """The nearest neighbour on pixels, or on the features of the encoder in `file`, as in `evaluate_run`."""
    task = config.task.build()
    layer = None if file is None else load_encoder(task, file).to(device)
    result = {}
    for size in sizes:
        table = nearest_neighbour(task, layer, split, size, episodes, device)
        result[str(size)] = {"error": table.summary()["error_rate"], "by_presentation": table.errors}
    return result


def report(out: str | Path, sizes: Sequence[int] = SIZES, episodes: int = EPISODES) -> str:
    """The mean test error by number of characters of all runs under `out` that have ended, and of the nearest
    neighbour on their input. What was measured goes to results.json."""
    from sparsam.lab.training.folder import RunFolder

    out = Path(out)
    runs = {path.parent.name.removeprefix(PREFIX): path.parent for path in sorted(out.glob(f"{PREFIX}*/result.json"))}
    if not runs:
        raise ValueError(f"{out} holds no finished run of omniglot-pixels")
    results: dict[str, Any] = {}
    last = str(sizes[-1])
    for name, folder in runs.items():
        test = _kept(folder / "test.json", map(str, sizes)) or evaluate_run(folder, "test", sizes, episodes)
        validation = _kept(folder / "validation.json", [last]) or evaluate_run(
            folder, "validation", sizes[-1:], episodes
        )
        results[name] = {"test": test, "validation": validation[last]["error"]}
    config = RunFolder(next(iter(runs.values()))).config()
    inputs = {"pixels": None} | {f"encoder {file.stem}": file for file in sorted(out.glob("encoders/*.safetensors"))}
    near = {
        f"nearest neighbour, {name}": neighbours(config, file, "test", sizes, episodes, config.device)
        for name, file in inputs.items()
    }
    (out / "results.json").write_text(json.dumps({"runs": results, "neighbours": near}, indent=2) + "\n")
    seeds: dict[str, list[dict[str, Any]]] = {}
    for name, result in results.items():
        seeds.setdefault(name.rpartition("-")[0], []).append(result["test"])
    seeds |= {name: [tested] for name, tested in near.items()}
    rows = [
        [name, len(tests), *(spread([test[str(size)]["error"] for test in tests], 3) for size in sizes)]
        for name, tests in seeds.items()
    ]
    return table(["model", "seeds", *map(str, sizes)], rows)


def _kept(file: Path, sizes: Iterable[str]) -> dict[str, Any] | None:
    """What was measured before, if it has all of these sizes."""
    if not file.exists():
        return None
    kept: dict[str, Any] = json.loads(file.read_text())
    return kept if all(size in kept for size in sizes) else None
