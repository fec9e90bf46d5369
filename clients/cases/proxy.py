"""A reverse proxy that misbehaves on demand, and remembers what it was asked."""

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date"}
TEXT = "text/plain; charset=utf-8"


@dataclass
class Seen:
    at: float
    method: str
    path: str
    key: str | None
    prefer: str | None
    body: bytes


def problem(status: int, code: str, retry: str, after: int | None = None) -> "Fault":
    """Answers with this problem in the server's place; the request does not reach the server."""
    body = {"type": f"/problems/{code}", "title": code, "status": status, "detail": "Said by the proxy.", "code": code, "retry": retry}
    headers = {"Content-Type": "application/problem+json"} | ({"Retry-After": str(after)} if after is not None else {})
    return lambda exchange: exchange.answer(status, headers, json.dumps(body).encode())


def answer_of(status: int, body: Any, **headers: str) -> "Fault":
    """Answers with this in the server's place, and asks for the next attempt at once."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda x: x.answer(status, {"Content-Type": "application/json", "Retry-After": "0"} | headers, content)


class Exchange(BaseHTTPRequestHandler):
    """One request on one connection, for a fault to do with as it likes."""

    protocol_version = "HTTP/1.1"
    server: "Server"
    body: bytes

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True  # the client went away

    def _do(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(time.monotonic(), self.command, self.path, self.headers["Idempotency-Key"], self.headers["Prefer"], self.body)
        self.server.take(seen)(self)

    do_GET = do_POST = do_PATCH = do_DELETE = _do

    def forward(self, body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        try:
            upstream.request(self.command, self.path, self.body if body is None else body, headers)
            response = upstream.getresponse()
            kept = {name: value for name, value in response.getheaders() if name.lower() not in HOP}
            return response.status, kept, response.read()
        finally:
            upstream.close()

    def answer(self, status: int, headers: dict[str, str], body: bytes, cut_at: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut_at])
        self.wfile.flush()

    def cut(self, reset: bool = False) -> None:
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def kill(self) -> None:
        self.server.kill_client()
        self.cut()


Fault = Callable[[Exchange], None]


def pass_on(x: Exchange) -> None:
    x.answer(*x.forward())


def cut_before(x: Exchange) -> None:
    x.cut()


def cut_after(x: Exchange) -> None:
    x.forward()
    x.cut()


def reset_after(x: Exchange) -> None:
    x.forward()
    x.cut(reset=True)


def half_after(x: Exchange) -> None:
    status, headers, body = x.forward()
    x.answer(status, headers, body, cut_at=len(body) // 2)
    x.cut()


def silent_after(x: Exchange) -> None:
    x.forward()
    x.connection.settimeout(20)
    x.connection.recv(1)  # until the client gives up
    x.close_connection = True


def then(first: Fault, second: Fault) -> Fault:
    def fault(x: Exchange) -> None:
        first(x)
        second(x)

    return fault


def unheard(x: Exchange) -> None:
    """The server does its work; what it says goes nowhere."""
    x.forward()


def without(member: str) -> Fault:
    """The server's answer, but for one member."""

    def fault(x: Exchange) -> None:
        status, headers, content = x.forward()
        body = json.loads(content)
        del body[member]
        x.answer(status, headers | {"Retry-After": "0"}, json.dumps(body).encode())

    return fault


def drip(first: bytes, drop: bytes, pause: float = 0.2) -> Fault:
    """Sends a little for ever, until the client goes away."""

    def fault(x: Exchange) -> None:
        x.close_connection = True
        x.wfile.write(first)
        while True:
            x.wfile.write(drop)
            time.sleep(pause)

    return fault


slow_head = drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a")
interim_for_ever = drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n")
slow_body = drip(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n")
endless_body = drip(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n", 0)


def late(seconds: float) -> Fault:
    def fault(x: Exchange) -> None:
        time.sleep(seconds)
        pass_on(x)

    return fault


def text_502(x: Exchange) -> None:
    x.answer(502, {"Content-Type": TEXT}, b"Bad Gateway\n")


def text_502_after(x: Exchange) -> None:
    x.forward()
    text_502(x)


def html_503_date(x: Exchange) -> None:
    x.answer(503, {"Content-Type": "text/html", "Retry-After": formatdate(time.time() + 2, usegmt=True)}, b"<h1>Maintenance</h1>")


def html_200(x: Exchange) -> None:
    x.answer(200, {"Content-Type": "text/html"}, b"<h1>Please log in to this network</h1>")


def empty_201(x: Exchange) -> None:
    x.answer(201, {"Content-Type": "application/json"}, b"{}")


def redirect(x: Exchange) -> None:
    x.answer(307, {"Location": "/elsewhere", "Content-Type": TEXT}, b"elsewhere\n")


def kill_before(x: Exchange) -> None:
    x.kill()


def kill_after(x: Exchange) -> None:
    x.forward()
    x.kill()


def kill_during(x: Exchange) -> None:
    threading.Timer(0.3, x.server.kill_client).start()
    x.forward()  # the server works on
    x.cut()


def steal(x: Exchange) -> None:
    """Somebody else has used this very key for something else."""
    body = json.loads(x.body) | {"quantity": 77}
    x.forward(json.dumps(body).encode())
    pass_on(x)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream_port: int, faults: list[Fault]) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.upstream_port = upstream_port
        self.faults = list(faults)
        self.otherwise: Fault = pass_on
        self.seen: list[Seen] = []
        self.kill_client: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def take(self, seen: Seen) -> Fault:
        with self._lock:
            self.seen.append(seen)
            return self.faults.pop(0) if self.faults else self.otherwise

    def handle_error(self, *_: object) -> None:
        pass  # clients that were killed


@dataclass
class Proxy:
    """Plays the faults in turn, one a request, then passes on."""

    upstream_port: int
    faults: list[Fault] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.server = Server(self.upstream_port, self.faults)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def seen(self) -> list[Seen]:
        return self.server.seen
