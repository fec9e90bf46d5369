"""A store keeps the first record of an intent, and survives what a crash leaves behind."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reservation_client import FileStore, MemoryStore, Record, Store


def record(key: str) -> Record:
    return Record(key=key, created_at_ms=1, method="POST", path="/", if_match=None, body={}, state="open", answer=None)


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path / "intents") if request.param == "file" else MemoryStore()


def test_the_first_record_stays(store: Store) -> None:
    assert store.begin("a/../b", record("1")) == record("1")
    assert store.begin("a/../b", record("2")) == record("1")
    assert store.begin("a", record("3")) == record("3")


def test_save_replaces(store: Store) -> None:
    store.begin("a", record("1"))
    store.save("a", record("2"))
    assert store.begin("a", record("3")) == record("2")


def test_of_many_at_once_one_wins(store: Store) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: store.begin("a", record(str(number)))["key"], range(64)))
    assert len(set(found)) == 1


def test_a_half_written_file_of_a_crash_is_no_record(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    (tmp_path / "x.tmp").write_text('{"key": "ha')
    assert store.begin("x", record("1")) == record("1")
