"""Where intents are kept, so that a client that comes back after a crash finds its key again."""

import os
import re
import tempfile
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, cast

from ._errors import DamagedRecord
from ._json import decode, encode
from ._models import is_problem, is_reservation

_KEY = re.compile(r"[!#-\[\]-~]{1,255}")
_LEFTOVER_AFTER = 3600.0


class SavedRequest(TypedDict):
    """What is sent, besides method and path."""

    if_match: str | None
    body: dict[str, Any]


class SavedAnswer(TypedDict):
    """A final answer."""

    status: int
    etag: str | None
    body: dict[str, Any]


class Record(TypedDict):
    """An intent: the request, its key, and its final answer once there is one. JSON, the same in every language's helper."""

    intent: str
    key: str
    created_at_ms: int
    method: str
    path: str
    request: SavedRequest
    #: The requests that stood here before they were refused and mended.
    replaced: list[SavedRequest]
    #: ``open``: the request may have been accepted. ``mendable``: it was not, so another may take its place.
    state: Literal["open", "mendable", "final"]
    answer: SavedAnswer | None


class Store(Protocol):
    """Supplied by the caller. ``begin`` and ``save`` return only when a crash cannot undo them any more."""

    def begin(self, intent: str, record: Record) -> Record:
        """Adds the record unless the intent has one, atomically; returns the one that is there now."""

    def save(self, intent: str, record: Record) -> None:
        """Replaces the record."""

    def find(self, intent: str) -> Record | None:
        """Returns the record that is there now, ``None`` where the intent has none."""


class MemoryStore:
    """Forgets with the process: for tests, and for callers for whom a crash cannot leave an intent half done."""

    def __init__(self) -> None:
        self._records: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def begin(self, intent: str, record: Record) -> Record:
        with self._lock:
            found: Record = decode(self._records.setdefault(intent, encode(record)))
            return found

    def save(self, intent: str, record: Record) -> None:
        with self._lock:
            self._records[intent] = encode(record)

    def find(self, intent: str) -> Record | None:
        with self._lock:
            found = self._records.get(intent)
            return None if found is None else cast(Record, decode(found))


class FileStore:
    """One file per intent in a folder, for any number of processes on one machine."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        _make(self._folder)
        self._remove_leftovers()

    def begin(self, intent: str, record: Record) -> Record:
        path = self._path(intent)
        temporary = self._write(path, record)
        try:
            # A link, not a rename: it fails where the name is taken, and the file behind it is complete.
            os.link(temporary, path)
        except FileExistsError:
            record = _read(path, intent)
        finally:
            os.unlink(temporary)
        # For a record that was there, too: who wrote it may have been stopped before this.
        _sync(self._folder)
        return record

    def save(self, intent: str, record: Record) -> None:
        path = self._path(intent)
        os.replace(self._write(path, record), path)
        _sync(self._folder)

    def find(self, intent: str) -> Record | None:
        try:
            return _read(self._path(intent), intent)
        except FileNotFoundError:
            return None

    def _path(self, intent: str) -> Path:
        """A digest: of one length, and the same on disks that do not tell ``a`` from ``A``. The record says its intent itself."""
        return self._folder / f"{sha256(intent.encode()).hexdigest()}.json"

    def _write(self, path: Path, record: Record) -> str:
        content = encode(record)
        handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=path.stem + ".", suffix=".tmp")
        try:
            with open(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(handle)
        except BaseException:
            os.unlink(temporary)
            raise
        return temporary

    def _remove_leftovers(self) -> None:
        """Of processes that were killed while they wrote; a young one may be in use."""
        for temporary in self._folder.glob("*.tmp"):
            try:
                if time.time() - temporary.stat().st_mtime > _LEFTOVER_AFTER:
                    temporary.unlink()
            except FileNotFoundError:
                pass  # in use after all, or another process was faster


def check(intent: str, value: Any, place: str = "the store") -> Record:
    """Raises `DamagedRecord` unless it is a record of this intent."""
    fault = _fault(intent, value)
    if fault is not None:
        raise DamagedRecord(f"the record of intent {intent!r} in {place} is damaged: {fault}")
    return cast(Record, value)


def _fault(intent: str, value: Any) -> str | None:
    if not isinstance(value, dict):
        return "it is no object"
    key, created, replaced, state, answer = (value.get(name) for name in ("key", "created_at_ms", "replaced", "state", "answer"))
    right = {
        "intent": value.get("intent") == intent,
        "key": isinstance(key, str) and _KEY.fullmatch(key) is not None,
        "created_at_ms": type(created) is int and 0 <= created < 2**53,
        "method": isinstance(value.get("method"), str),
        "path": isinstance(value.get("path"), str),
        "request": _is_request(value.get("request")),
        "replaced": isinstance(replaced, list) and all(_is_request(request) for request in replaced),
        "state": state in ("open", "mendable", "final"),
        "answer": _is_answer(answer) if state == "final" else "answer" in value and answer is None,
    }
    return next((f"its member {name} is missing or wrong" for name, is_right in right.items() if not is_right), None)


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("if_match", 0), str | None) and isinstance(value.get("body"), dict)


def _is_answer(value: Any) -> bool:
    if not (isinstance(value, dict) and type(value.get("status")) is int and isinstance(value.get("etag", 0), str | None)):
        return False
    if value["status"] < 400:
        return is_reservation(value.get("body"))
    return is_problem(value.get("body")) and bool(value["body"]["retry"] == "never")


def _read(path: Path, intent: str) -> Record:
    try:
        value = decode(path.read_bytes())
    except ValueError as error:
        raise DamagedRecord(f"the record of intent {intent!r} in {path} is damaged: {error}") from error
    return check(intent, value, str(path))


def _make(folder: Path) -> None:
    """A new folder, and each above it that is new, is durable when the one that holds it is synced."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
