"""Where intents are kept, so that a client that comes back after a crash finds its key again."""

import json
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict


class SavedAnswer(TypedDict):
    """A final answer."""

    status: int
    etag: str | None
    body: dict[str, Any]


class Record(TypedDict):
    """An intent: the request, its key, and its final answer once there is one. JSON, the same in every language's helper."""

    key: str
    created_at_ms: int
    method: str
    path: str
    if_match: str | None
    body: dict[str, Any]
    state: Literal["open", "corrected", "final"]
    answer: SavedAnswer | None


class Store(Protocol):
    """Supplied by the caller. Both methods return only when a crash cannot undo them any more."""

    def begin(self, intent: str, record: Record) -> Record:
        """Adds the record unless the intent has one, atomically; returns the one that is there now."""

    def save(self, intent: str, record: Record) -> None:
        """Replaces the record."""


class MemoryStore:
    """Forgets with the process: for tests, and for callers for whom a crash cannot leave an intent half done."""

    def __init__(self) -> None:
        self._records: dict[str, str] = {}
        self._lock = threading.Lock()

    def begin(self, intent: str, record: Record) -> Record:
        with self._lock:
            found: Record = json.loads(self._records.setdefault(intent, json.dumps(record)))
            return found

    def save(self, intent: str, record: Record) -> None:
        with self._lock:
            self._records[intent] = json.dumps(record)


class FileStore:
    """One file per intent in a folder, for any number of processes on one machine."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def begin(self, intent: str, record: Record) -> Record:
        path = self._path(intent)
        temporary = self._write(record)
        try:
            # A link, not a rename: it fails where the name is taken, and the file behind it is complete.
            os.link(temporary, path)
        except FileExistsError:
            found: Record = json.loads(path.read_text(encoding="utf-8"))
            return found
        finally:
            os.unlink(temporary)
        self._sync_folder()
        return record

    def save(self, intent: str, record: Record) -> None:
        os.replace(self._write(record), self._path(intent))
        self._sync_folder()

    def _path(self, intent: str) -> Path:
        name = re.sub(rb"[^A-Za-z0-9_-]", lambda byte: b"%%%02X" % byte[0][0], intent.encode())
        return self._folder / (name.decode() + ".json")

    def _write(self, record: Record) -> str:
        handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".tmp")
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(handle)
        return temporary

    def _sync_folder(self) -> None:
        if os.name == "nt":  # a folder cannot be opened there
            return
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
