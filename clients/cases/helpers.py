"""How to run a program of each language's helper. `.ci/clients` has built them."""

import json
import subprocess
import sys
import threading
from typing import Any

from service import ROOT, target

CLIENTS = ROOT / "clients"


def command(language: str, program: str) -> list[str]:
    """`program` is its name with underscores."""
    match language:
        case "python":
            return [sys.executable, str(CLIENTS / f"python/examples/{program}.py")]
        case "typescript":
            return ["node", str(CLIENTS / f"typescript/dist/examples/{program.replace('_', '-')}.js")]
        case _:
            return [str(target(CLIENTS / "rust") / "debug/examples" / program)]


LANGUAGES = ["python", "typescript", "rust"]


class Run:
    """One run of a helper's `one` program."""

    def __init__(self, language: str, order: dict[str, Any]) -> None:
        self._input = json.dumps(order)
        self._process = subprocess.Popen(command(language, "one"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = threading.Lock()

    def kill(self) -> None:
        with self._lock:
            self._process.kill()

    def outcome(self) -> dict[str, Any]:
        output, _ = self._process.communicate(self._input, timeout=90)
        if self._process.returncode == -9:
            return {"result": "killed"}
        if self._process.returncode != 0:
            return {"result": "crashed"}
        outcome: dict[str, Any] = json.loads(output)
        return outcome
