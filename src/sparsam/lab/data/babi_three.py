"""Stories like those of bAbI's task 3 (three supporting facts), for where the official training file is not complete.

What the official files show, and this repeats. Four people, three objects and six places begin anywhere. Two statements
follow one another, then a question is asked if one can be. A statement is drawn from all that people can do: go to
another place, pick up an object that lies where they are, put one down. A question is about an object that was picked
up or put down within the last five statements and was carried to at least two places since it was picked up: where
was it before one of these? The answer needs three facts: that it was picked up (or put down), and the two moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["story", "text"]

PEOPLE = ("Mary", "John", "Daniel", "Sandra")
OBJECTS = ("football", "milk", "apple")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
GO = ("moved", "went", "went back", "journeyed", "travelled")
TAKE = ("got", "grabbed", "took", "picked up")
LEAVE = ("dropped", "left", "put down", "discarded")
QUESTIONS = 5  # of a story
LONGEST = 229  # lines of a story
_THERE = 0.2  # share of 'got the milk there'
_RECENT = 5  # statements


@dataclass
class _Trip:
    """What an object went through since it was last picked up: statements are numbered, lines are too."""

    person: int
    line: int  # at which it was picked up, or put down again
    statement: int
    moves: list[tuple[int, int]] = field(default_factory=list)  # line and place
    held: bool = True


def text(count: int, seed: int = 0) -> str:
    """`count` stories as a file of the official format."""
    random = np.random.default_rng([3, seed])
    return "".join(story(random) for _ in range(count))


def story(random: np.random.Generator) -> str:
    """One story with five questions, as lines of the official format."""
    while True:
        lines = _tell(random)
        if len(lines) <= LONGEST:
            return "".join(f"{number} {line}\n" for number, line in enumerate(lines, start=1))


def _tell(random: np.random.Generator) -> list[str]:
    people = [int(place) for place in random.integers(len(PLACES), size=len(PEOPLE))]
    objects = [int(place) for place in random.integers(len(PLACES), size=len(OBJECTS))]
    trips: list[_Trip | None] = [None] * len(OBJECTS)
    lines: list[str] = []
    asked = statements = 0
    while asked < QUESTIONS:
        for _ in range(2):
            lines.append(_act(random, people, objects, trips, len(lines) + 1, statements))
            statements += 1
        question = _ask(random, trips, statements)
        if question:
            lines.append(question)
            asked += 1
    return lines


def _act(
    random: np.random.Generator,
    people: list[int],
    objects: list[int],
    trips: list[_Trip | None],
    line: int,
    statement: int,
) -> str:
    """Somebody does something that can be done; a choice that cannot is drawn again."""
    while True:
        person, action = int(random.integers(len(PEOPLE))), int(random.integers(3))
        name, carried = PEOPLE[person], [o for o, trip in enumerate(trips) if trip and trip.held]
        if action == 0:
            place = int(random.integers(len(PLACES)))
            if place == people[person]:
                continue
            people[person] = place
            for thing in carried:
                trip = trips[thing]
                if trip is not None and trip.person == person:
                    objects[thing] = place
                    trip.moves.append((line, place))
            return f"{name} {random.choice(GO)} to the {PLACES[place]}."
        mine = [o for o in carried if trips[o].person == person]  # type: ignore[union-attr]
        here = [o for o in range(len(OBJECTS)) if o not in carried and objects[o] == people[person]]
        if not (here if action == 1 else mine):
            continue
        thing = int(random.choice(here if action == 1 else mine))
        trip = trips[thing]
        if action == 1:
            trips[thing] = _Trip(person, line, statement)
        elif trip is not None:
            trip.line, trip.statement, trip.held = line, statement, False
        there = " there" if random.random() < _THERE else ""
        return f"{name} {random.choice(TAKE if action == 1 else LEAVE)} the {OBJECTS[thing]}{there}."


def _ask(random: np.random.Generator, trips: list[_Trip | None], statements: int) -> str | None:
    can = [o for o, trip in enumerate(trips) if trip and len(trip.moves) > 1 and statements - trip.statement <= _RECENT]
    if not can:
        return None
    thing = int(random.choice(can))
    trip = trips[thing]
    assert trip is not None
    while True:
        place = trip.moves[int(random.integers(len(trip.moves)))][1]
        last = max(number for number, move in enumerate(trip.moves) if move[1] == place)
        if last:
            break
    (line, place), (before, answer) = trip.moves[last], trip.moves[last - 1]
    question = f"Where was the {OBJECTS[thing]} before the {PLACES[place]}?"
    return f"{question} \t{PLACES[answer]}\t{trip.line} {line} {before}"
