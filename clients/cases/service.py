"""Starts the service under test, and says what was booked."""

import json
import os
import random
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]


def target(workspace: Path) -> Path:
    """Where cargo puts what it builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", workspace / "target"))


def free_port() -> int:
    """Below the ports that connections are given, so that nobody else has it by the time it is used."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Service:
    """The api on SQLite in a temporary folder, with the sandbox as its booking system."""

    def __init__(self, **settings: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="clients.")
        self.folder = Path(self._folder.name)
        self.port, self.sandbox_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        environment = os.environ | {
            "DATABASE_URL": f"sqlite://{self.folder}/reservations.db?mode=rwc",
            "LISTEN": f"127.0.0.1:{self.port}",
            "SANDBOX_LISTEN": f"127.0.0.1:{self.sandbox_port}",
        }
        self.log = self.folder / "server.log"
        binary = os.environ.get("API", str(target(ROOT) / "debug/api"))
        with self.log.open("w") as log:
            self._process = subprocess.Popen([binary], env=environment | settings, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        for _ in range(300):
            try:
                self.get("/health/ready")
                return self
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        raise SystemExit(f"the server did not become ready:\n{self.log.read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(25)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._folder.cleanup()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def events(self, event: str) -> list[dict[str, Any]]:
        """What the booking system did, `booked`, `changed` or `cancelled`: its own file, which no list limit cuts."""
        path = self.folder / "reservations.sandbox.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def bookings(self, reserved_by: str) -> list[dict[str, Any]]:
        return [entry["booking"] for entry in self.events("booked") if entry["booking"]["reserved_by"] == reserved_by]
