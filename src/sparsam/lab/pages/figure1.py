"""Figure 1: time and memory of a step over the size of the memory."""

from __future__ import annotations

from sparsam.lab.pages.tables import Claim, Records, count, table

FULL = "full 1,000,000 words: step over nn.LSTM step, 8 threads"


def claims(records: Records) -> list[Claim]:
    filled = records.figure("speed", "NTM step over SAM step, N = 1,000,000 filled")
    bytes_ = records.figure("memory", "NTM bytes over SAM bytes")
    return [
        Claim(
            "Figure 1a: NTM step over SAM step, full memory, exact search",
            "100",
            count(filled),
            "-",
            "better",
            "figure1",
        ),
        Claim(
            "Figure 1a: the same with approximate search",
            "1,600",
            f"{count(records.figure('ann', 'NTM step over that step'))} (8 threads)",
            "-",
            "better",
            "figure1",
            in_readme=False,
        ),
        Claim(
            "Figure 1b: NTM bytes over SAM bytes, 100 steps, 65,536 words",
            "3,700",
            count(bytes_),
            "-",
            "better",
            "figure1",
        ),
    ]


def page(records: Records) -> str:
    def lines(bench: str) -> str:
        rows = [
            [line["figure"], f"{line['reached']:,.3g}" if line["reached"] < 1000 else count(line["reached"]),
             line["unit"], line["paper"] or "-"]
            for line in records[f"bench/{bench}"]["lines"]
        ]  # fmt: skip
        return table(["figure", "read", "unit", "the paper"], rows)

    speed, read = records["bench/speed"]["machine"], records["bench/speed"]["raw"]
    lines_read, curve_read = read["us per step"]["NTM 1,000,000"] / 1e6, read["curves"]["NTM"]["1000000"] / 1e3
    return f"""# Figure 1: time and memory of a step

The paper: the time of a step of SAM does not grow with the memory where the dense models' grows in proportion (1a), and
neither do the bytes that it keeps for the backward pass (1b).

Setting: batch 8, 100 steps, 100 hidden units, words of 32, 4 heads, K = 4, forward and backward. Each benchmark first
compares outputs and gradients with the reference.

## 1a: time

    sparsam bench speed

{lines("speed")}

![Time per step over the number of words](../bench/speed.png)

A **blank** memory is not what the paper measured: only written words are searched, so a blank million-word memory is
nearly free, which is also the common case at the start of an episode. In a memory **full** of random words exact search
reads every word. NTM and DAM run with as many batch elements as fit into memory, and their time is scaled to 8; NTM's step
at a million words took {lines_read:.1f} s where the table was read and {curve_read:.1f} s where the picture was. Machine:
{speed["processor"]}, {speed["threads"]} threads, torch {speed["torch"]}.

With approximate search on a full memory whose words a trained model wrote (`python -m benchmarks.ann_million`; one set of
weights, 8 threads, recall of the lowest head {records.figure("ann", "full 1,000,000 words: recall@K"):.3f}), NTM's step takes
{count(records.figure("ann", "NTM step over that step"))} times SAM's, which takes {records.figure("ann", FULL):.0f} times
`nn.LSTM`'s.

## 1b: memory

    sparsam bench memory

{lines("memory")}

![Bytes kept for the backward pass](../bench/memory.png)

Dense models beyond what memory holds are extrapolated in the picture, and drawn so.

## SDNC and DNC

    sparsam bench sdnc

{lines("sdnc")}

Records: `docs/bench/*.json`. Profiles and what was tried: [notebook](../notebook/performance.md).
"""
