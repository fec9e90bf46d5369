"""What cannot be sent is not stored, and what is one request to the server is one to the store."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reservation_client import ChangeReservation, Client, FileStore, MemoryStore, NewReservation, OutcomeUnknown

NOBODY = "http://127.0.0.1:1"
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
