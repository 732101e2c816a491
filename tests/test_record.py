"""Frozen records: written like dataclasses, taken apart by nobody."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from sparsam.record import Record


class Point(Record):
    count: ClassVar[int] = 0
    x: int
    y: int = 2
    note: Any = dataclasses.field(default=None, kw_only=True)


class Named(Point):
    name: str = "none"


def test_fields_come_from_all_classes_in_order_and_keywords_last():
    assert Named.field_names == ("x", "y", "name", "note")
    point = Named(1, 3, "a", note="n")
    assert (point.x, point.y, point.name, point.note) == (1, 3, "a", "n")
    assert (Named(1).y, Named(1).name, Named(1).note) == (2, "none", None)


@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, "a", "n"), {}), ((1,), {"z": 1})])
def test_wrong_fields_are_refused(values, named):
    with pytest.raises(TypeError, match="expected the fields x, y, name, note"):
        Named(*values, **named)
    with pytest.raises(TypeError, match="expected the fields"):
        Named(1).with_fields(z=1)


def test_a_record_does_not_change():
    point = Named(1)
    with pytest.raises(AttributeError, match="with_fields"):
        point.x = 2
    with pytest.raises(AttributeError):
        del point.x
    assert point.with_fields(x=2).x == 2 and point.x == 1


def test_a_record_is_no_dataclass_and_cannot_be_made_one():
    assert not dataclasses.is_dataclass(Named)
    decorated = dataclasses.dataclass(frozen=True)(type("Decorated", (Point,), {"__init__": Point.__init__}))
    with pytest.raises(TypeError, match="without @dataclass"):
        decorated(1)


def test_copies_are_equal():
    point = Named(1, note=[3])
    for twin in (copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert type(twin) is Named and vars(twin) == vars(point)


def test_a_field_is_named_once():
    with pytest.raises(TypeError, match="got x twice"):
        type("Twice", (Point,), {"__annotations__": {"x": int}})
