"""The forms that bAbI's sentences and questions have: what a model trained on bAbI can be expected to understand.

The 20 tasks are made from a few dozen forms ("{person} moved to the {place}") filled with a few words. A sentence
belongs to the tasks that have both its form and its words, and a story with a question belongs to the tasks that all of
its lines belong to. Outside of these a model still answers, and what it answers means nothing.

`tests/lab/tasks/babi/test_forms.py` compares all of this with the official files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["ANSWERS", "QUESTIONS", "SENTENCES", "SLOTS", "Form", "Reading", "nearest_questions", "read"]

_ROOMS = "bathroom bedroom garden hallway kitchen office"
_TOWN = "bedroom cinema kitchen office park school"
_FOUR = "daniel john mary sandra"
_IN_ROOMS = (1, 2, 3, 6, 7, 8, 9, 11, 12, 13)

_FILLED: dict[str, list[tuple[tuple[int, ...], str]]] = {
    "person": [
        (_IN_ROOMS, _FOUR),
        ((5,), "bill fred jeff mary"),
        ((10, 14), "bill fred julie mary"),
        ((15,), "emily gertrude jessica winona"),
        ((16,), "bernhard brian greg julius lily"),
        ((20,), "antoine jason sumit yann"),
    ],
    "place": [((*_IN_ROOMS, 4, 5, 19), _ROOMS), ((10, 14), _TOWN), ((20,), "bedroom garden kitchen")],
    "thing": [((2, 3, 5, 6, 7, 8), "apple football milk"), ((20,), "apple football milk pajamas")],
    "direction": [((4, 19), "east north south west")],
    "animal": [((15,), "cat mouse sheep wolf"), ((16,), "frog lion rhino swan")],
    "animals": [((15,), "cats mice sheep wolves")],
    "colour": [((16,), "gray green white yellow"), ((17,), "blue pink red yellow")],
    "shape": [((17,), "rectangle sphere square triangle")],
    "side": [((17,), "left right")],
    "height": [((17,), "above below")],
    "box": [((18,), "box chest chocolate container suitcase")],
    "mood": [((20,), "bored hungry thirsty tired")],
}

# What stands in a form's slots, by task.
SLOTS: dict[str, dict[int, frozenset[str]]] = {
    slot: {task: frozenset(words.split()) for tasks, words in filled for task in tasks}
    for slot, filled in _FILLED.items()
}

# The words that can answer a question, by the kind of answer that its form asks for.
ANSWERS: dict[str, frozenset[str]] = {
    "place": frozenset(f"{_ROOMS} {_TOWN}".split()),
    "thing": frozenset(["apple", "football", "milk"]),
    "things": frozenset(["apple", "football", "milk", "nothing"]),
    "person": frozenset(["bill", "fred", "jeff", "mary"]),
    "yes or no": frozenset(("yes", "no")),
    "yes, no or maybe": frozenset(("yes", "no", "maybe")),
    "number": frozenset(("none", "one", "two", "three")),
    "animal": frozenset(["cat", "mouse", "sheep", "wolf"]),
    "colour": frozenset(["gray", "green", "white", "yellow"]),
    "directions": frozenset(["n", "e", "s", "w"]),
    "mood": frozenset(["bored", "hungry", "thirsty", "tired"]),
}


@dataclass(frozen=True)
class Form:
    """`text` with slots in braces, `{place?}` for one that the story need not have mentioned, and alternatives in
    round brackets; the `tasks` that have it; for a question the kind of its `answer`."""

    text: str
    tasks: tuple[int, ...]
    answer: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        counted: dict[str, int] = {}

        def slot(match: re.Match[str]) -> str:
            name = match[1]
            counted[name] = counted.get(name, 0) + 1
            words = sorted(set().union(*SLOTS[name].values()))
            return f"(?P<{name}{counted[name]}{'_free' if match[2] else ''}>{'|'.join(words)})"

        text = self.text.replace("(", "(?:")
        return re.compile(re.sub(r"\{(\w+)(\??)\}", slot, text))

    def example(self) -> str:
        """The form filled with words of its first task."""
        used: dict[str, int] = {}

        def fill(match: re.Match[str]) -> str:
            words = sorted(SLOTS[match[1]][self.tasks[0]])
            used[match[1]] = used.get(match[1], -1) + 1
            return words[used[match[1]] % len(words)]

        plain = re.sub(r"\(([^|)]*)[^)]*\)", r"\1", self.text)
        return re.sub(r"\{(\w+)\??\}", fill, plain)


@dataclass(frozen=True)
class Reading:
    """A line read as one of the forms: the `tasks` that have it with these words, and the words that the story must
    have `mentioned` for the question to make sense."""

    form: Form
    tasks: frozenset[int]
    mentioned: tuple[str, ...]


_MOVED = "(moved|went|journeyed|travelled|went back) to the {place}"
_TOOK, _DROPPED = "(took|got|picked up|grabbed)", "(left|dropped|discarded|put down)"
_LATER = "(afterwards|after that|following that|then)"
_WHEN = "(yesterday|this morning|this afternoon|this evening)"
_THINGS = (2, 3, 5, 6, 7, 8)
_SOLID = ("the {colour} {shape}", "the {shape}")
_PACKED = ("the {box}", "the box of chocolates")

SENTENCES: tuple[Form, ...] = (
    Form("{person} " + _MOVED, (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 20)),
    Form("{person} is in the {place}", (9, 10)),
    Form("{person} is (no longer|not) in the {place}", (9,)),
    Form("{person} is either in the {place} or the {place}", (10,)),
    Form(f"{_LATER} (he|she) {_MOVED}", (11,)),
    Form("{person} and {person} " + _MOVED, (12, 13)),
    Form(f"{_LATER} they {_MOVED}", (13,)),
    Form(f"{_WHEN} {{person}} {_MOVED}", (14,)),
    Form(f"{{person}} {_MOVED} {_WHEN}", (14,)),
    Form(f"{{person}} {_TOOK} the {{thing}} there", (*_THINGS, 20)),
    Form(f"{{person}} {_TOOK} the {{thing}}", (3,)),
    Form(f"{{person}} {_DROPPED} the {{thing}}", _THINGS),
    Form(f"{{person}} {_DROPPED} the {{thing}} there", _THINGS),
    Form("{person} (passed|gave|handed) the {thing} to {person}", (5, 7)),
    Form("the {place} is {direction} of the {place}", (4, 19)),
    Form("{person} is a {animal}", (15, 16)),
    Form("{animals} are afraid of {animals}", (15,)),
    Form("{person} is {colour}", (16,)),
    *(Form(f"{a} is to the {{side}} of {b}", (17,)) for a in _SOLID for b in _SOLID),
    *(Form(f"{a} is {{height}} {b}", (17,)) for a in _SOLID for b in _SOLID),
    *(Form(f"{a} fits inside {b}", (18,)) for a in _PACKED for b in _PACKED),
    *(Form(f"{a} is bigger than {b}", (18,)) for a in _PACKED for b in _PACKED),
    Form("{person} is {mood}", (20,)),
)

QUESTIONS: tuple[Form, ...] = (
    Form("where is {person}", (1, 11, 12, 13), "place"),
    Form("where is the {thing}", (2,), "place"),
    Form("where was the {thing} before the {place}", (3,), "place"),
    Form("what is {direction?} of the {place}", (4,), "place"),
    Form("what is the {place} {direction?} of", (4,), "place"),
    Form("what did {person} give to {person}", (5,), "thing"),
    Form("who (received|gave) the {thing}", (5,), "person"),
    Form("who did {person} give the {thing} to", (5,), "person"),
    Form("who gave the {thing} to {person}", (5,), "person"),
    Form("is {person} in the {place?}", (6, 9), "yes or no"),
    Form("is {person} in the {place?}", (10,), "yes, no or maybe"),
    Form("how many objects is {person} carrying", (7,), "number"),
    Form("what is {person} carrying", (8,), "things"),
    Form("where was {person} before the {place}", (14,), "place"),
    Form("what is {person} afraid of", (15,), "animal"),
    Form("what color is {person}", (16,), "colour"),
    *(Form(f"is {a} to the {{side?}} of {b}", (17,), "yes or no") for a in _SOLID for b in _SOLID),
    *(Form(f"is {a} {{height?}} {b}", (17,), "yes or no") for a in _SOLID for b in _SOLID),
    *(Form(f"is {a} bigger than {b}", (18,), "yes or no") for a in _PACKED for b in _PACKED),
    *(Form(f"does {a} fit in {b}", (18,), "yes or no") for a in _PACKED for b in _PACKED),
    Form("how do you go from the {place} to the {place}", (19,), "directions"),
    Form("where will {person} go", (20,), "place"),
    Form("why did {person} go to the {place}", (20,), "mood"),
    Form("why did {person} get the {thing}", (20,), "mood"),
)


def read(words: Sequence[str], forms: Iterable[Form]) -> list[Reading]:
    """Every form that these lower-case words (without the mark at their end) have, with the tasks it then belongs to.

    A reading without tasks has the form of some task and the words of another.
    """
    text, readings = " ".join(words), []
    for form in forms:
        match = form.pattern.fullmatch(text)
        if match is None:
            continue
        slots = [(re.sub(r"\d.*", "", key), key.endswith("_free"), word) for key, word in match.groupdict().items()]
        tasks = {task for task in form.tasks if all(word in SLOTS[slot].get(task, ()) for slot, _, word in slots)}
        mentioned = tuple(word for _, free, word in slots if not free)
        readings.append(Reading(form, frozenset(tasks), mentioned))
    return readings


def nearest_questions(words: Sequence[str], count: int = 2) -> list[str]:
    """Examples of bAbI's questions that are most like these words."""
    import difflib

    examples = {form.example(): None for form in QUESTIONS}
    return difflib.get_close_matches(" ".join(words), examples, n=count, cutoff=0.0)
