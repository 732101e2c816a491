"""Numbers and rows as one sortable key: the largest number first, ties to the lowest row."""

import triton
import triton.language as tl

NOTHING = tl.constexpr(-(2**63))  # below the key of every number
LAST = tl.constexpr(2**31 - 1)


@triton.jit
def sort_key(number, row):
    """An int64 that orders like (number, -row)."""
    number = tl.where(number == 0, 0.0, number)  # -0.0 too
    bits = number.to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & LAST)
    return (ordered.to(tl.int64) << 32) | (row ^ LAST).to(tl.int64)


@triton.jit
def key_number(key):
    ordered = (key >> 32).to(tl.int32)
    return (ordered ^ ((ordered >> 31) & LAST)).to(tl.float32, bitcast=True)


@triton.jit
def key_row(key):
    return (key & LAST).to(tl.int32) ^ LAST


@triton.jit
def _larger(keys, others):
    """For each of keys (rows, X), how many of others (rows, Y) are larger."""
    return tl.sum((others[:, None, :] > keys[:, :, None]).to(tl.int32), 2)


@triton.jit
def rank_in_two(first, second):
    """The places, from 0, that keys of two lists (rows, ...) have among all of their row, largest first.

    Comparing all with all is one pass; taking the largest K times is a chain of K.
    """
    return _larger(first, first) + _larger(first, second), _larger(second, first) + _larger(second, second)


@triton.jit
def largest(keys, K: tl.constexpr, KP: tl.constexpr):
    """The K largest keys along the second dimension, as (rows, KP), largest first."""
    place = tl.arange(0, KP)[None, :]
    found = tl.full([keys.shape[0], KP], NOTHING, tl.int64)
    k = 0
    while k < K:
        top = tl.max(keys, 1)
        keys = tl.where(keys == top[:, None], NOTHING, keys)
        found = tl.where(place == k, top[:, None], found)
        k += 1
    return found


@triton.jit
def largest_of_places(keys, K: tl.constexpr):
    """The K largest keys (rows, KP) of keys (rows, places, KP), largest first."""
    place = tl.arange(0, keys.shape[2])[None, :]
    found = tl.full([keys.shape[0], keys.shape[2]], NOTHING, tl.int64)
    k = 0
    while k < K:
        top = tl.max(tl.max(keys, 2), 1)
        keys = tl.where(keys == top[:, None, None], NOTHING, keys)
        found = tl.where(place == k, top[:, None], found)
        k += 1
    return found


@triton.jit
def largest_of_two(first, second, K: tl.constexpr, KP: tl.constexpr):
    """The K largest keys of two lists (rows, ...) along the second dimension, as (rows, KP), largest first."""
    place = tl.arange(0, KP)[None, :]
    found = tl.full([first.shape[0], KP], NOTHING, tl.int64)
    k = 0
    while k < K:  # not unrolled: instructions would not fit their cache
        top = tl.maximum(tl.max(first, 1), tl.max(second, 1))
        first = tl.where(first == top[:, None], NOTHING, first)
        second = tl.where(second == top[:, None], NOTHING, second)
        found = tl.where(place == k, top[:, None], found)
        k += 1
    return found
