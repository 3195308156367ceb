"""Serves built pages, and the files that they take from a CDN, from this machine alone.

Every host of the web is this one server: the browser is told so by `Server.flags`. Pages stay as
they were built, and what they ask of a CDN is answered here, over TLS like the page itself. What
cannot be answered is in `Server.unanswered`. Text is sent compressed, as web servers do.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import mimetypes
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

TEXT = {".html", ".css", ".js", ".json", ".svg", ".txt", ".mjs"}
Find = Callable[[str, str], Path | None]  # host and path, to a file


class Sent(NamedTuple):
    """One answered request: where to, and its body's bytes, as sent and unpacked."""

    host: str
    path: str
    sent: int
    plain: int


@functools.cache
def body_of(path: Path) -> tuple[bytes, int]:
    """Return what is sent of a file, compressed if it is text, and its size on disk."""
    plain = path.read_bytes()
    # No time in the header, so that the same file is as long each time.
    return gzip.compress(plain, mtime=0) if path.suffix in TEXT else plain, len(plain)


class Handler(BaseHTTPRequestHandler):
    """Answers GET with the file that the server's ``find`` names."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    server: Server

    def do_GET(self) -> None:
        """Send one file, or 404."""
        host = self.headers.get("Host", "").split(":")[0]
        path = unquote(urlsplit(self.path).path)
        file = self.server.find(host, path)
        body, plain = (b"", 0) if file is None else body_of(file)
        if file is None and path != "/favicon.ico":  # which a browser asks for on its own
            self.server.unanswered.append(f"{host}{path}")
        elif file is not None:
            self.server.sent.append(Sent(host, path, len(body), plain))
        self.send_response(404 if file is None else 200)
        kind = mimetypes.guess_type(path if file is None else file.name)[0]
        self.send_header("Content-Type", f"{kind or 'application/octet-stream'}")
        if file is not None and file.suffix in TEXT:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", f"{len(body)}")
        self.send_header("Access-Control-Allow-Origin", "*")  # as CDNs do
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Answers for every host; notes what it sent, and what it could not."""

    daemon_threads = True

    def __init__(self, find: Find, certificate: Path) -> None:
        self.find = find
        self.sent: list[Sent] = []
        self.unanswered: list[str] = []
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate)
        super().__init__(("127.0.0.1", 0), Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Greet the browser in the thread of its connection, and not one after the other."""
        with self.tls.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a browser hang up: a page is closed once it has been measured."""

    @property
    def flags(self) -> list[str]:
        """Return the flags that make Chromium ask this server, whatever the address."""
        port = self.server_address[1]
        return [f"--host-resolver-rules=MAP * 127.0.0.1:{port}", "--ignore-certificate-errors"]


def certify(folder: Path) -> Path:
    """Write a certificate that nobody trusts, with its key, and return the file."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files = ["-keyout", f"{key}", "-out", f"{certificate}"]
    subprocess.run([*command, *curve, *files], check=True, capture_output=True)
    certificate.write_bytes(key.read_bytes() + certificate.read_bytes())
    return certificate


@contextlib.contextmanager
def serving(find: Find, folder: Path) -> Iterator[Server]:
    """Serve what ``find`` finds until the block ends; ``folder`` takes the certificate."""
    with Server(find, certify(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
