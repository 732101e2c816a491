"""What the site adds to the pages: model cards as a page, and links to files of the repository that are no pages."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in the model cards; turn links that lead out of docs/ into plain text, as the site does not have those."""
    if page.file.src_uri == "results/weights.md":
        cards = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "weights").glob("*.md"))]
        lowered = [re.sub(r"^(#+) ", r"#\1 ", card, flags=re.MULTILINE) for card in cards]
        markdown = markdown.replace("<!-- cards -->", "\n\n".join(lowered))

    if page.file.src_uri == "reference/cli.md":
        markdown = markdown.replace("<!-- commands -->", commands())

    if page.file.src_uri.startswith("notebook/"):
        page.meta["search"] = {"exclude": True}

    def link(match: re.Match[str]) -> str:
        text, target = match[1], match[2].partition("#")[0]
        if "://" in target or not target:
            return match[0]
        place = (ROOT / "docs" / page.file.src_uri).parent / target
        outside = ROOT / "docs" not in place.resolve().parents and place.resolve() != ROOT / "docs"
        return text if outside or place.is_dir() else match[0]

    return re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)", link, markdown)


def commands() -> str:
    """Every command with its options, from the command line itself."""
    import typer

    from sparsam.lab.cli import build_app

    app = typer.main.get_command(build_app())
    parts: list[str] = []

    def describe(command: Any, path: str, level: int) -> None:
        if path != "sparsam":
            parts.append(f"{'#' * level} {path}\n\n{inspect.cleandoc(command.help or '')}\n")
            rows = [row for parameter in command.params if (row := option(parameter))]
            if rows:
                table = "| | | default |\n|---|---|---|\n" + "\n".join(rows)
                parts.append(f'<div class="options" markdown>\n\n{table}\n\n</div>\n')
        for name, child in sorted(getattr(command, "commands", {}).items()):
            describe(child, f"{path} {name}", level + (path != "sparsam"))

    def option(parameter: Any) -> str | None:
        if parameter.name in ("help", "install_completion", "show_completion"):
            return None
        name = ", ".join(parameter.opts) if parameter.opts[0].startswith("-") else parameter.name.upper()
        default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
        shown = "" if default in (None, False, (), []) or callable(default) else str(default).replace("|", "\\|")
        about = (getattr(parameter, "help", "") or "").replace("|", "\\|").replace("[", "\\[")
        return f"| `{name}` | {about} | {shown} |"

    describe(app, "sparsam", 2)
    return "\n".join(parts)
