"""What trained models make of stories of our own in bAbI's words, told in ways that its generator does not tell them.

    python -m benchmarks.babi_shifts babi-sam babi-sdnc [--stories 1000] [--out docs/results]

A model that answers the test files may have learnt their habits: names that come after fears, maps that branch, two
facts where three would do. Each shift keeps a task's sentences and changes one habit; `usual` beside it keeps the
habit, so that what the shift costs can be told from what the generator costs. Every answer follows from the story by
the task's own rule.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import torch

from benchmarks.report import as_record
from sparsam.lab.data.babi import Story, words_of
from sparsam.lab.recipes.record import text
from sparsam.lab.tasks.babi.task import encode, question_results
from sparsam.lab.training.trained import load_model

_FOUR = ("mary", "john", "daniel", "sandra")
_OTHERS = ("fred", "bill", "julie", "jeff")
_ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
_GO = ("moved to", "went to", "journeyed to", "travelled to", "went back to")
_FEARED = {"mouse": "mice", "cat": "cats", "wolf": "wolves", "sheep": "sheep"}
_SHAPES = ("pink rectangle", "blue square", "red square", "red sphere", "yellow square", "triangle")
_STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
Lines = tuple[list[str], str, list[str]]  # facts, the question, the words of its answer


@dataclass(frozen=True)
class Shift:
    """A way to tell the stories of a task: what it is called, and how one is drawn."""

    task: int
    name: str
    draw: Callable[[Random], Lines]


def stories(shift: Shift, count: int, seed: int = 0) -> list[tuple[int, Story]]:
    """`count` stories with one question each, the same ones for the same seed."""
    random = Random(f"{seed} {shift.task} {shift.name}")
    return [(shift.task, _story(*shift.draw(random))) for _ in range(count)]


def _story(facts: list[str], question: str, answer: list[str]) -> Story:
    story = Story()
    for fact in facts:
        story.add(words_of(f"{fact} ."))
    story.add(words_of(f"{question} ?"))
    story.ask(answer)
    return story


def _moves(people: tuple[str, ...], count: int) -> Callable[[Random], Lines]:
    def draw(random: Random) -> Lines:
        where: dict[str, str] = {}
        facts = []
        for _ in range(count):
            person = random.choice(people)
            where[person] = random.choice([room for room in _ROOMS if room != where.get(person)])
            facts.append(f"{person} {random.choice(_GO)} the {where[person]}")
        person = random.choice(sorted(where))
        return facts, f"where is {person}", [where[person]]

    return draw


def _carried(count: int) -> Callable[[Random], Lines]:
    """Somebody takes a thing and moves on; `count` moves of anybody come between."""

    def draw(random: Random) -> Lines:
        carrier, thing = random.choice(_FOUR), random.choice(("apple", "football", "milk"))
        where = random.choice(_ROOMS)
        facts = [f"{carrier} went to the {where}", f"{carrier} got the {thing} there"]
        for _ in range(count):
            person, room = random.choice(_FOUR), random.choice(_ROOMS)
            facts.append(f"{person} {random.choice(_GO)} the {room}")
            where = room if person == carrier else where
        return facts, f"where is the {thing}", [where]

    return draw


def _fears(order: str) -> Callable[[Random], Lines]:
    def draw(random: Random) -> Lines:
        kinds = list(_FEARED)
        feared = {kind: random.choice([other for other in kinds if other != kind]) for kind in kinds}
        names = dict(zip(("emily", "gertrude", "jessica", "winona"), random.sample(kinds, 4)))
        fears = [f"{_FEARED[kind]} are afraid of {_FEARED[feared[kind]]}" for kind in kinds]
        named = [f"{name} is a {kind}" for name, kind in names.items()]
        random.shuffle(fears)
        random.shuffle(named)
        facts = {"fears first": fears + named, "names first": named + fears}.get(order)
        if facts is None:
            facts = fears + named
            random.shuffle(facts)
        name = random.choice(list(names))
        return facts, f"what is {name} afraid of", [feared[names[name]]]

    return draw


def _colours(order: str, pairs: int = 4) -> Callable[[Random], Lines]:
    """`pairs` coloured animals of different kinds and one more of one of the kinds, whose colour is asked for."""

    def draw(random: Random) -> Lines:
        names = random.sample(("bernhard", "brian", "greg", "julius", "lily"), pairs + 1)
        kinds = random.sample(("frog", "lion", "rhino", "swan"), pairs)
        colours = [random.choice(("gray", "green", "white", "yellow")) for _ in kinds]
        alike = random.randrange(pairs)
        kind_of = [f"{name} is a {kind}" for name, kind in zip(names, [*kinds, kinds[alike]])]
        colour_of = [f"{name} is {colour}" for name, colour in zip(names, colours)]
        random.shuffle(kind_of)
        random.shuffle(colour_of)
        facts = {"kinds first": kind_of + colour_of, "colours first": colour_of + kind_of}.get(order)
        if facts is None:
            facts = kind_of + colour_of
            random.shuffle(facts)
        return facts, f"what color is {names[-1]}", [colours[alike]]

    return draw


def _places(count: int) -> Callable[[Random], Lines]:
    """`count` facts along a line of shapes; the question is about its ends."""

    def draw(random: Random) -> Lines:
        shapes = random.sample(_SHAPES, count + 1)
        near, far = random.choice((("to the left of", "to the right of"), ("above", "below")))
        facts = []
        for first, second in pairwise(shapes):  # each stands before the next one
            forward = random.random() < 0.5
            facts.append(f"the {first} is {near} the {second}" if forward else f"the {second} is {far} the {first}")
        random.shuffle(facts)
        first, last = (shapes[0], shapes[-1]) if random.random() < 0.5 else (shapes[-1], shapes[0])
        relation = random.choice((near, far))
        right = (first == shapes[0]) == (relation == near)
        return facts, f"is the {first} {relation} the {last}", ["yes" if right else "no"]

    return draw


def _map(chain: bool) -> Callable[[Random], Lines]:
    """Six rooms on a grid, five facts; the way between two rooms that are two steps apart."""

    def draw(random: Random) -> Lines:
        while True:
            rooms = random.sample(_ROOMS, 6)
            place = {rooms[0]: (0, 0)}
            links = []
            for number, room in enumerate(rooms[1:], 1):
                near = rooms[number - 1] if chain else random.choice(rooms[:number])
                x, y = place[near]
                free = [d for d, (i, j) in _STEPS.items() if (x + i, y + j) not in place.values()]
                if not free:
                    break
                direction = random.choice(free)
                place[room] = (x + _STEPS[direction][0], y + _STEPS[direction][1])
                links.append((room, direction, near))
            if len(links) < 5:
                continue
            degrees = [sum(room in (first, second) for first, _, second in links) for room in rooms]
            if chain or max(degrees) > 2:
                return _way(random, links)

    return draw


def _way(random: Random, links: list[tuple[str, str, str]]) -> Lines:
    opposite = {"north": "south", "south": "north", "east": "west", "west": "east"}
    go = {(near, room): direction for room, direction, near in links}
    go |= {(room, near): opposite[direction] for room, direction, near in links}
    ways = [(a, b, d) for a, b in go for c, d in go if b == c and a != d]
    start, over, end = random.choice(ways)
    facts = []
    for room, direction, near in links:
        told = (room, direction, near) if random.random() < 0.5 else (near, opposite[direction], room)
        facts.append(f"the {told[0]} is {told[1]} of the {told[2]}")
    random.shuffle(facts)
    answer = [go[start, over][0], go[over, end][0]]
    return facts, f"how do you go from the {start} to the {end}", answer


SHIFTS = (
    Shift(1, "usual: 10 facts", _moves(_FOUR, 10)),
    Shift(1, "30 facts", _moves(_FOUR, 30)),
    Shift(1, "people of other tasks", _moves(_OTHERS, 10)),
    Shift(2, "usual: 6 moves after taking", _carried(6)),
    Shift(2, "24 moves after taking", _carried(24)),
    Shift(15, "usual: mixed", _fears("mixed")),
    Shift(15, "fears before names", _fears("fears first")),
    Shift(15, "names before fears", _fears("names first")),
    Shift(16, "usual: mixed", _colours("mixed")),
    Shift(16, "kinds before colours", _colours("kinds first")),
    Shift(16, "colours before kinds", _colours("colours first")),
    Shift(16, "two pairs only", _colours("mixed", 2)),
    Shift(17, "usual: two facts", _places(2)),
    Shift(17, "three facts", _places(3)),
    Shift(19, "usual: maps that branch", _map(False)),
    Shift(19, "maps that are a chain", _map(True)),
)


@torch.no_grad()
def error(model: torch.nn.Module, shift: Shift, count: int, scale: float) -> float:
    """Share of the questions of `count` stories that the model gets wrong."""
    drawn = encode(stories(shift, count))
    order = np.argsort(drawn.lengths, kind="stable")
    right = 0
    for start in range(0, count, 100):
        batch = drawn.batch(order[start : start + 100], scale)
        outputs, _ = model(batch.inputs, lengths=batch.lengths)
        right += int(question_results(outputs, batch)[1].sum())
    return 1 - right / count


def table(rows: list[dict]) -> str:
    models = [key for key in rows[0] if key not in ("task", "stories")]
    lines = ["| task | stories | " + " | ".join(models) + " |", "|---|---|" + "---|" * len(models)]
    for row in rows:
        cells = [f"{100 * row[model]:.1f}" for model in models]
        lines.append(f"| {row['task']} | {row['stories']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("weights", nargs="+", help="names of weights, files or run folders")
    parser.add_argument("--stories", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    rows: list[dict] = [{"task": shift.task, "stories": shift.name} for shift in SHIFTS]
    for weights in settings.weights:
        model, task, _ = load_model(weights)
        model.eval()
        for row, shift in zip(rows, SHIFTS):
            row[Path(weights).stem] = error(model, shift, settings.stories, task.scale)
    print(f"error in percent, {settings.stories:,} stories of one question each")
    print(table(rows))
    widest = 100 * 1.96 * math.sqrt(0.25 / settings.stories)
    print(f"two figures of one row differ by chance when they are closer than about {1.4 * widest:.1f}")
    if settings.out:
        result = {"stories": settings.stories, "seed": 0, "rows": rows}
        settings.out.mkdir(parents=True, exist_ok=True)
        (settings.out / "babi_shifts.json").write_text(text(as_record("babi_shifts", result, sys.argv[1:])))


if __name__ == "__main__":
    main()
