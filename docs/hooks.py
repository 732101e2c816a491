"""What the site adds to the pages: model cards, commands, and plain text for links to files that are no pages.

Raw Markdown on a page and code that does not fit a laptop are warnings, so that a strict build fails.
"""

from __future__ import annotations

import html
import inspect
import logging
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WIDEST = 100  # characters that a code block shows beside both menus, at 1,280 pixels
log = logging.getLogger("mkdocs.hooks")


def raw_markdown(page: str) -> list[str]:
    """Markdown that a browser would show as it was typed."""
    body = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", "", body))
    return re.findall(r"\*\*\w[^*\n]*\*\*|\]\([\w./#-]+\)|^\|.*\|$|^#{1,6} \w.*$", text, flags=re.MULTILINE)


def wide_code(markdown: str) -> list[str]:
    """Lines of code blocks that are too long."""
    blocks = re.findall(r"```.*?\n(.*?)```", markdown, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if len(line) > WIDEST]


def on_post_page(output: str, page: Any, config: Any) -> str:
    for found in raw_markdown(output):
        log.warning("%s shows raw Markdown: %s", page.file.src_uri, found)
    return output


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
    else:
        for line in wide_code(markdown):
            log.warning("%s has code of more than %d columns: %s", page.file.src_uri, WIDEST, line)

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
        for name in sorted(command.list_commands(None)) if hasattr(command, "list_commands") else ():
            describe(command.get_command(None, name), f"{path} {name}", level + (path != "sparsam"))

    def option(parameter: Any) -> str | None:
        if parameter.name in ("help", "install_completion", "show_completion"):
            return None
        name = ", ".join(parameter.opts) if parameter.opts[0].startswith("-") else parameter.name.upper()
        default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
        none = default is None or default is False or default in ((), []) or callable(default)
        shown = "" if none else str(default).replace("|", "\\|")
        about = (getattr(parameter, "help", "") or "").replace("|", "\\|").replace("[", "\\[")
        return f"| `{name}` | {about} | {shown} |"

    describe(app, "sparsam", 2)
    return "\n".join(parts)
