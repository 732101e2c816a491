"""Figure 1: time and memory of a step over the size of the memory."""

from __future__ import annotations

from sparsam.lab.pages.tables import Claim, Records, count, table

NTM = "NTM step over SAM step"
FULL = "full 1,000,000 words: step over nn.LSTM step, 8 threads"


def _over_sam(records: Records, what: str) -> float:
    """NTM's step over SAM's at a million words, by those of the two readings of each that favour SAM least."""
    read = records["bench/speed"]["raw"]
    steps, curves = read["us per step"], read["curves"]
    ntm = [steps["NTM 1,000,000"], 1e3 * curves["NTM"]["1000000"]]
    blank = [steps["SAM 1,000,000"], 1e3 * curves["SAM"]["1000000"]]
    ratio: float = min(ntm) / (steps["SAM filled 1,000,000"] if what == "filled" else max(blank))
    return ratio


RATIO = "SAM over nn.LSTM, B 8, T 100, 2 threads"


def claims(records: Records) -> list[Claim]:
    filled = _over_sam(records, "filled")
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


def cost(records: Records) -> str:
    """README's paragraphs on what a step costs."""
    larger = records.figure("speed", "SAM step at N = 1,000,000")
    over_lstm = max(  # of two benchmarks, the reading that favours SAM least
        records.figure("speed", "SAM step, N = 1,000,000 blank"),
        records.figure("ratios", RATIO),
    )
    read = records["bench/speed"]["raw"]["us per step"]
    full = count(read["SAM filled 1,000,000"] / read["SAM 1,000,000"])
    kept = records.figure("memory", "SAM bytes kept per step")
    return f"""The time of a step does not grow with the size of the memory. With a million blank words a step takes {larger:.2f} times as
long as with a thousand and {over_lstm:.1f} times as long as a step of `nn.LSTM`, and keeps {kept:.0f} KiB for the backward pass.

The search grows with the words *written so far*. In a memory full of a million words, exact search makes a step {full} times
as slow. With approximate search it takes {records.figure("ann", FULL):.0f} times `nn.LSTM`'s step, on 8 threads.
[What a step costs](docs/explanation/cost.md) has the commands."""


def page(records: Records) -> str:
    def lines(bench: str) -> str:
        rows = []
        for line in records[f"bench/{bench}"]["lines"]:
            name, reached = line["figure"], line["reached"]
            if name.startswith(NTM):
                reached = _over_sam(records, "filled" if "filled" in name else "blank")
            shown = f"{reached:,.3g}" if reached < 1000 else count(reached)
            rows.append([name, shown, line["unit"], line["paper"] or "-"])
        return table(["figure", "measured", "unit", "the paper"], rows)

    speed, read = records["bench/speed"]["machine"], records["bench/speed"]["raw"]
    lines_read, curve_read = read["us per step"]["NTM 1,000,000"] / 1e6, read["curves"]["NTM"]["1000000"] / 1e3
    return f"""# Figure 1: time and memory of a step

The paper: a step of SAM takes the same time whatever the size of the memory, while a dense model's time grows in
proportion to it (1a). The same holds for the bytes kept for the backward pass (1b).

Setting: batch 8, 100 steps, 100 hidden units, words of 32 numbers, 4 heads, K = 4, forward and backward. Each benchmark
first checks outputs and gradients against the reference engine.

## 1a: time

    sparsam bench speed

{lines("speed")}

![Time per step over the number of words](../bench/speed.png)

The paper did not measure a **blank** memory, with which most sequences begin. Only written words are searched, so a million
blank words are nearly free. `sparsam bench ratios` read {records.figure("ratios", RATIO):.2f} of `nn.LSTM`'s step; README has the larger. In a memory
**full** of random words, exact search scores every word. NTM and DAM run with as many batch elements as fit into RAM, and
their time is scaled to 8. NTM's step at a million words was measured twice,
{curve_read:.1f} s and {lines_read:.1f} s; both ratios take the time that favours SAM least. Machine: {speed["processor"]}, {speed["threads"]} threads, torch
{speed["torch"]}.

With approximate search, in a memory full of words that a trained model wrote, NTM's step takes
{count(records.figure("ann", "NTM step over that step"))} times as long as SAM's, and SAM's {records.figure("ann", FULL):.0f} times as long as `nn.LSTM`'s
(`python -m benchmarks.ann_million`: one set of weights, 8 threads, recall of the worst head
{records.figure("ann", "full 1,000,000 words: recall@K"):.3f}).

## 1b: memory

    sparsam bench memory

{lines("memory")}

![Bytes kept for the backward pass](../bench/memory.png)

Where a dense model does not fit into RAM, the picture marks an extrapolation.

## SDNC and DNC

    sparsam bench sdnc

{lines("sdnc")}

Records: `docs/bench/*.json`. Profiles and attempts: [notebook](../notebook/performance.md).
"""
