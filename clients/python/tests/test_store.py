"""A store keeps the first record of an intent, survives what a crash leaves behind, and says what is damaged."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reservation_client import Client, DamagedRecord, FileStore, MemoryStore, NewReservation, Record, Store

ROOM = NewReservation(item_code="ROOM", quantity=1, reserved_by="taro")


def record(intent: str, key: str) -> Record:
    return Record(
        intent=intent,
        key=key,
        created_at_ms=1,
        method="POST",
        path="/reservations",
        request={"if_match": None, "body": {}},
        replaced=[],
        state="open",
        answer=None,
    )


def create(store: Store) -> None:
    with Client("http://127.0.0.1:1", store, deadline=0.1) as client:
        client.create("order-1", ROOM)


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path / "new" / "intents") if request.param == "file" else MemoryStore()


@pytest.mark.parametrize("intent", ["a/../b", "a", "A", "予約" * 100, ""])
def test_the_first_record_stays(store: Store, intent: str) -> None:
    store.begin("another", record("another", "0"))
    assert store.begin(intent, record(intent, "1")) == record(intent, "1")
    assert store.begin(intent, record(intent, "2")) == record(intent, "1")


def test_save_replaces(store: Store) -> None:
    store.begin("a", record("a", "1"))
    store.save("a", record("a", "2"))
    assert store.begin("a", record("a", "3")) == record("a", "2")


def test_of_many_at_once_one_wins(store: Store) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: store.begin("a", record("a", str(number)))["key"], range(64)))
    assert len(set(found)) == 1


def test_what_a_crash_left_half_written_is_no_record_and_is_removed_in_time(tmp_path: Path) -> None:
    FileStore(tmp_path).begin("x", record("x", "1"))
    old, young = tmp_path / "old.tmp", tmp_path / "young.tmp"
    for file in (old, young):
        file.write_text('{"key": "ha')
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert FileStore(tmp_path).begin("x", record("x", "2"))["key"] == "1"
    assert (old.exists(), young.exists(), len(list(tmp_path.iterdir()))) == (False, True, 2)


class Giving(MemoryStore):
    """A store of the caller's own, that has this."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self._found = found

    def begin(self, intent: str, record: Record) -> Record:
        found: Record = self._found
        return found


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"intent": "order-2"}, "intent"),
        ({"key": None}, "key"),
        ({"key": 'a"b'}, "key"),
        ({"created_at_ms": "1"}, "created_at_ms"),
        ({"created_at_ms": 1e400}, "created_at_ms"),
        ({"request": {"body": {}}}, "request"),
        ({"replaced": [{}]}, "replaced"),
        ({"state": "begun"}, "state"),
        ({"state": "final"}, "answer"),
        ({"state": "final", "answer": {"status": 201, "etag": None, "body": {"id": "1"}}}, "answer"),
        ({"state": "final", "answer": {"status": 422, "etag": None, "body": {}}}, "answer"),
    ],
)
def test_a_damaged_record_is_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(DamagedRecord, match=f"intent 'order-1' in the store is damaged: its member {named} is"):
        create(Giving(record("order-1", "1") | wrong))


@pytest.mark.parametrize("found", [None, [], {}, "order-1"])
def test_what_is_no_record_is_damaged(found: Any) -> None:
    with pytest.raises(DamagedRecord, match="order-1"):
        create(Giving(found))


@pytest.mark.parametrize("content", [b"", b'{"intent": "order-1"', b"\xff", b"[" * 100_000, b"{}"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    FileStore(tmp_path).begin("order-1", record("order-1", "1"))
    [file] = tmp_path.iterdir()
    file.write_bytes(content)
    with pytest.raises(DamagedRecord) as raised:
        create(FileStore(tmp_path))
    assert "order-1" in str(raised.value) and str(file) in str(raised.value)


def test_a_file_under_the_name_of_another_intent_is_damaged(tmp_path: Path) -> None:
    FileStore(tmp_path).begin("order-1", record("order-1", "1"))
    [file] = tmp_path.iterdir()
    file.write_text(json.dumps(record("order-2", "1")))
    with pytest.raises(DamagedRecord, match="intent"):
        create(FileStore(tmp_path))
