"""What cannot be sent is not stored, and what is one request to the server is one to the store."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reservation_client import ChangeReservation, Client, FileStore, MemoryStore, NewReservation, OutcomeUnknown

NOBODY = "http://127.0.0.1:1"
NAN, INFINITY = float("nan"), float("inf")
ROOM = NewReservation(item_code="ROOM", quantity=1, reserved_by="taro")


@pytest.mark.parametrize(
    ("intent", "wrong"),
    [
        ("order", {"quantity": float("nan")}),
        ("order", {"starts_at": datetime.now()}),
        ("order", {"note": "\ud800"}),
        ("order\ud800", {}),
    ],
)
def test_what_is_no_json_is_not_stored(tmp_path: Path, intent: str, wrong: Any) -> None:
    with Client(NOBODY, FileStore(tmp_path)) as client, pytest.raises((TypeError, ValueError)):
        client.create(intent, ROOM | wrong)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_header_is_not_stored(tmp_path: Path) -> None:
    with Client(NOBODY, FileStore(tmp_path)) as client, pytest.raises(ValueError, match="if_match"):
        client.change("change", "1", ChangeReservation(quantity=2), if_match='"1"\r\nX: y')
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="token"):
        Client(NOBODY, FileStore(tmp_path), token="秘密")


def test_absent_and_none_are_one_request() -> None:
    with Client(NOBODY, MemoryStore(), deadline=0.2) as client:
        for request in (ROOM, ROOM | {"note": None}, ROOM | {"starts_at": None, "ends_at": None}):
            with pytest.raises(OutcomeUnknown):
                client.create("order", request)


def test_an_attempt_may_have_no_limit_of_its_own() -> None:
    with Client(NOBODY, MemoryStore(), deadline=0.2, attempt_timeout=float("inf"), keep_for=float("inf")) as client:
        with pytest.raises(OutcomeUnknown):
            client.create("order", ROOM)


def test_closed_it_says_so() -> None:
    client = Client(NOBODY, MemoryStore())
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.get("1")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("deadline", [NAN, -1, INFINITY, "5", None, True]),
        ("attempt_timeout", [NAN, -1, 0, "5", None, True]),
        ("pause", [NAN, -1, INFINITY, 3601, "5", None, False]),
        ("keep_for", [NAN, -1, 0, "5", None, True]),
        ("token", ["", "a\n", " a", 5]),
        ("http", [5]),
    ],
)
def test_a_setting_that_cannot_work_is_named(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be") as raised:
            Client(NOBODY, MemoryStore(), **{name: value})
        assert name == "token" or repr(value) in str(raised.value)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", 5])
def test_a_base_url_that_is_none_is_named(url: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="^base_url must"):
        Client(url, MemoryStore())


def test_a_store_without_its_methods_is_named() -> None:
    store: Any = object()
    with pytest.raises(TypeError, match="^store must"):
        Client(NOBODY, store)
