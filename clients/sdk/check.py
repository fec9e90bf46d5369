"""The SDK that openapi-python-client generates, used against the server; the first argument is its address, the second a token."""

import sys
import uuid
from http import HTTPStatus
from typing import TypeVar

import httpx
import tenacity
from reservation_api_client import AuthenticatedClient
from reservation_api_client.api.idempotency import get_idempotency_key, get_idempotency_policy
from reservation_api_client.api.reservations import (
    cancel_reservation,
    change_reservation,
    create_reservation,
    get_reservation,
    list_reservations,
)
from reservation_api_client.models import ChangeReservation, CreateReservation, Problem, Reservation
from reservation_api_client.types import Response

T = TypeVar("T")


def refuse_text(response: httpx.Response) -> None:
    """The SDK reads every declared error as JSON; a gateway's text must come out as an error with its status instead."""
    if response.is_error and "json" not in response.headers.get("Content-Type", ""):
        response.read()
        response.raise_for_status()


def is_a(kind: type[T], value: object) -> T:
    assert isinstance(value, kind), value
    return value


client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], httpx_args={"event_hooks": {"response": [refuse_text]}})
key = str(uuid.uuid4())


def create(key: str, quantity: int = 1, item: str = "ROOM", note: str = "", prefer: str = "wait=20") -> Response[Problem | Reservation]:
    body = CreateReservation(item_code=item, quantity=quantity, reserved_by="python", note=note)
    return create_reservation.sync_detailed(client=client, body=body, idempotency_key=f'"{key}"', prefer=prefer)


policy = get_idempotency_policy.sync(client=client)
assert policy is not None and not isinstance(policy, Problem) and policy.retention_ms > 0

made = create(key)
reservation = is_a(Reservation, made.parsed)
assert made.status_code == HTTPStatus.CREATED and reservation.status.value == "confirmed"
assert made.headers["Location"].endswith(reservation.id) and made.headers["ETag"]

again = create(key)
assert is_a(Reservation, again.parsed).id == reservation.id and again.headers["Idempotent-Replayed"] == "true"

slow = str(uuid.uuid4())
assert create(slow, item="SLOW-3", prefer="respond-async").status_code == HTTPStatus.ACCEPTED
running = create(slow, item="SLOW-3", prefer="wait=0")
problem = is_a(Problem, running.parsed)
assert (running.status_code, problem.code.value, problem.retry.value) == (409, "key-in-progress", "same_key")
assert int(running.headers["Retry-After"]) >= 1

problem = is_a(Problem, create(key, quantity=2).parsed)
assert (problem.status, problem.retry.value, problem.mismatch) == (422, "new_key", ["/quantity"])

problem = is_a(Problem, create(str(uuid.uuid4()), quantity=0).parsed)
assert (problem.status, problem.code.value) == (400, "request-invalid")
assert isinstance(problem.errors, list) and problem.errors[0].pointer == "/quantity"

later = str(uuid.uuid4())
busy = create(later, note="proxy: 503 once")
assert (busy.status_code, is_a(Problem, busy.parsed).retry.value, busy.headers["Retry-After"]) == (503, "same_key", "1")
assert create(later, note="proxy: 503 once").status_code == HTTPStatus.CREATED

# B67: the key is made before the first attempt, whose answer is cut; the second is told what the first one did.
retrying = tenacity.Retrying(retry=tenacity.retry_if_exception_type(httpx.TransportError), stop=tenacity.stop_after_attempt(3))
cut = retrying(create, str(uuid.uuid4()), note="proxy: cut once")
assert (cut.status_code, cut.headers["Idempotent-Replayed"]) == (HTTPStatus.CREATED, "true")
assert retrying.statistics["attempt_number"] == 2

try:
    create(str(uuid.uuid4()), note="proxy: text 502")
    raise AssertionError("a text 502 went unnoticed")
except httpx.HTTPStatusError as error:
    assert error.response.status_code == 502 and error.response.text == "Bad Gateway\n"

assert is_a(Reservation, get_reservation.sync(reservation.id, client=client)).id == reservation.id
changed = change_reservation.sync_detailed(
    reservation.id,
    client=client,
    body=ChangeReservation(quantity=3),
    idempotency_key=f'"{uuid.uuid4()}"',
    if_match=made.headers["ETag"],
)
assert is_a(Reservation, changed.parsed).quantity == 3
page = list_reservations.sync(client=client, limit=100)
assert page is not None and not isinstance(page, Problem) and reservation.id in [item.id for item in page.items]
state = get_idempotency_key.sync(key, client=client)
assert state is not None and not isinstance(state, Problem) and state.state.value == "completed"
assert cancel_reservation.sync_detailed(reservation.id, client=client).status_code == HTTPStatus.NO_CONTENT
