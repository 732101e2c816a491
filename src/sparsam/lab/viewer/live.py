"""The page during training: a small server on this machine alone that writes it anew when the run has moved on."""

from __future__ import annotations

import html
import http.server
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparsam.lab.viewer.page import write_page

__all__ = ["make_server", "serve"]

WAITING = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="3">
<title>sparsam</title><p style="font: 16px system-ui; margin: 3rem">Waiting for a checkpoint to show. ({})</p></html>"""


def version_of(run: str | Path) -> str:
    """Changes whenever the run has a new checkpoint or a new line in its log."""
    folder = Path(run)
    files = [folder / "log.jsonl", *sorted(folder.glob("checkpoints/*/manifest.json"))[-1:]]
    return "-".join(f"{file.stat().st_mtime_ns}" for file in files if file.exists()) or "none"


def is_local(host: str) -> bool:
    """Whether a Host header names this machine as itself."""
    return re.fullmatch(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", host, re.IGNORECASE) is not None


def make_server(runs: Sequence[str | Path], page: Path, port: int = 0, **settings: Any) -> http.server.HTTPServer:
    """A server bound to 127.0.0.1 with two addresses: the page, and the version that it has."""
    lock = threading.Lock()
    written: list[str] = []

    def current() -> bytes:
        with lock:
            version = version_of(runs[0])
            if not written or written[0] != version:
                try:
                    write_page(runs, page, live=True, **settings)
                except (OSError, RuntimeError, ValueError, TypeError) as error:  # no checkpoint yet, or a bad file
                    return WAITING.format(html.escape(str(error))).encode()
                written[:] = [version]
            return page.read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not is_local(self.headers.get("Host", "")):  # a page elsewhere whose name was made to lead here
                self.send_error(403, "This page is for localhost only")
            elif self.path == "/version":
                self._send(version_of(runs[0]).encode(), "text/plain")
            elif self.path == "/":
                self._send(current(), "text/html; charset=utf-8")
            else:
                self.send_error(404)

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)


def serve(runs: Sequence[str | Path], page: Path, port: int, open_it: bool, **settings: Any) -> None:
    """Serve until interrupted."""
    with make_server(runs, page, port, **settings) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        print(f"{address} shows {runs[0]} as it trains; Ctrl-C ends.")
        if open_it:
            import webbrowser

            webbrowser.open(address)
        server.serve_forever()
