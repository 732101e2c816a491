"""Progress of a run: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any


class Progress:
    """What a run shows; nothing unless a subclass does."""

    interval = float("inf")  # seconds between calls of show

    def show(self, values: dict[str, Any]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class Silent(Progress):
    """A run that nobody looks at."""


class Lines(Progress):
    """One line now and then, for logs and pipes."""

    def __init__(self, interval: float = 5.0) -> None:
        self.interval = interval

    def show(self, values: dict[str, Any]) -> None:
        print("  ".join(f"{name} {text}" for name, text in describe(values)), flush=True)

    def note(self, text: str) -> None:
        print(text, flush=True)


class Live(Progress):
    """A few lines that stay in place: numbers, a sparkline of the loss, a bar."""

    interval = 0.25

    def __init__(self, console: Any, title: str) -> None:
        from rich.live import Live as RichLive

        self._title = title
        self._losses: list[float] = []
        self._live = RichLive(console=console, auto_refresh=False)
        self._live.start()

    def show(self, values: dict[str, Any]) -> None:
        self._losses.append(float(values.get("loss") or 0.0))
        if len(self._losses) > 240:  # halve the resolution and keep the whole history
            self._losses = self._losses[::2]
        self._live.update(self._render(values), refresh=True)

    def _render(self, values: dict[str, Any]) -> Any:
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 3))
        rows = describe(values)
        for start in range(0, len(rows), 4):
            table.add_row(*(f"[dim]{name}[/dim] [bold]{text}[/bold]" for name, text in rows[start : start + 4]))
        bar = ProgressBar(total=1.0, completed=float(values.get("fraction") or 0.0), width=60)
        return Panel(
            Group(table, f"[dim]loss[/dim] [cyan]{sparkline(self._losses)}[/cyan]", bar),
            title=self._title,
            title_align="left",
            width=100,
        )

    def note(self, text: str) -> None:
        self._live.console.print(text, highlight=False)

    def close(self) -> None:
        self._live.stop()


def choose(title: str, quiet: bool = False) -> Progress:
    """Live on a terminal with rich installed, lines otherwise."""
    if quiet:
        return Silent()
    try:
        from rich.console import Console
    except ImportError:
        return Lines()
    console = Console()
    return Live(console, title) if console.is_terminal else Lines()


def describe(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and text of each number, in the order a reader looks for them."""
    rows = [("minibatch", f"{values['step']:,}"), ("loss", f"{values['loss']:.4f}")]
    if values.get("error") is not None:
        rows.append((values["error_name"].replace("_", " "), f"{values['error']:.3g}"))
    if values.get("level") is not None:
        rows.append(("level", f"{values['level']:,}"))
    rows.append(("sequences/s", f"{values['sequences_per_second']:,.1f}"))
    rows.append(("time steps/s", f"{values['time_steps_per_second']:,.0f}"))
    if values.get("seconds_left") is not None:
        rows.append(("left", duration(values["seconds_left"])))
    return rows


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}:{whole % 60:02d}"


def sparkline(values: list[float], width: int = 60) -> str:
    if not values:
        return ""
    shown = [values[i * len(values) // min(width, len(values))] for i in range(min(width, len(values)))]
    low, high = min(shown), max(shown)
    bars = "▁▂▃▄▅▆▇█"
    return "".join(bars[int((v - low) / (high - low + 1e-12) * (len(bars) - 1))] for v in shown)


class Clock:
    """Says when the display is due; costs one clock reading per minibatch."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = time.perf_counter() + min(interval, 1.0)

    def due(self) -> bool:
        now = time.perf_counter()
        if now < self._next:
            return False
        self._next = now + self._interval
        return True
