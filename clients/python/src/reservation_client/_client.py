"""The operations."""

import random
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay

from ._answer import Done, Final, NotYet, read
from ._errors import IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError
from ._http import Http, Request
from ._json import decode, encode
from ._models import ChangeReservation, NewReservation, Problem, Reservation
from ._store import Record, SavedAnswer, SavedRequest, Store, check

_LONGEST_PAUSE = 30.0
_HEADER = re.compile("[!-~]([ -~]*[!-~])?")


@dataclass(frozen=True)
class Answer:
    """A final answer: the same on every retry."""

    reservation: Reservation
    #: Pass it to `Client.change` as ``if_match``.
    etag: str | None
    #: The server had stored the answer before: an earlier attempt did the work.
    replayed: bool
    #: HTTP requests of this call; 0 where the store had the answer.
    attempts: int


class Client:
    """Sends each intent under one key until its answer is final. For any number of threads; make it after forking, not before.

    All times are in seconds.

    :param store: keeps the intents; see `Store`.
    :param token: sent as a bearer token.
    :param deadline: for one call, all attempts and pauses together; whatever the server does, the call ends by then. 0 sends nothing.
    :param attempt_timeout: for one attempt; longer than the server's ``ANSWER_WITHIN`` (25 s) saves retries.
    :param pause: the first pause where the server names none; it doubles up to 30 s.
    :param keep_for: an intent older than this is never sent again; keep it below the server's ``retention_ms`` (milliseconds!).
    :param http: an httpx client of your own, for proxies, certificates or hooks. It belongs to this one, and is closed with it.
    """

    def __init__(
        self,
        base_url: str,
        store: Store,
        *,
        token: str | None = None,
        deadline: float = 120.0,
        attempt_timeout: float = 40.0,
        pause: float = 1.0,
        keep_for: float = 20 * 3600.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        if httpx.URL(base_url).scheme not in ("http", "https"):
            raise ValueError("base_url must begin with http:// or https://")
        self._base = base_url.rstrip("/")
        self._store = store
        self._headers = {} if token is None else {"Authorization": _header("token", f"Bearer {token}")}
        self._deadline = deadline
        self._attempt_timeout = attempt_timeout
        self._pause = pause
        self._keep_for = keep_for
        self._http = Http(http or httpx.AsyncClient())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def create(self, intent: str, reservation: NewReservation, *, respond_async: bool = False) -> Answer:
        """Makes a reservation, once for this intent however often it is called.

        :param intent: your own name of what you want, such as an order number.
        :param respond_async: ask the server not to hold the connection; the answer is then polled.
        """
        # Absent and null are one request to the server.
        body = {name: value for name, value in reservation.items() if value is not None}
        return self._keyed(intent, "POST", "/reservations", {"if_match": None, "body": body}, 201, respond_async)

    def change(self, intent: str, reservation_id: str, change: ChangeReservation, *, if_match: str) -> Answer:
        """Changes a reservation, once for this intent. ``if_match``: the ETag of what the change was decided on."""
        request = SavedRequest(if_match=_header("if_match", if_match), body=dict(change))
        return self._keyed(intent, "PATCH", _path(reservation_id), request, 200, False)

    def cancel(self, reservation_id: str) -> None:
        """Cancels a reservation. Needs no intent: cancelling twice is cancelling once."""
        self._settle(self._request("DELETE", _path(reservation_id)), 204, self._deadline)

    def get(self, reservation_id: str) -> Answer:
        """Reads a reservation."""
        done, attempts = self._settle(self._request("GET", _path(reservation_id)), 200, self._deadline)
        return Answer(cast(Reservation, done.body), done.etag, False, attempts)

    def _keyed(self, intent: str, method: str, path: str, request: SavedRequest, success: int, respond_async: bool) -> Answer:
        wanted = Record(
            intent=intent,
            key=str(uuid.uuid4()),
            created_at_ms=int(time.time() * 1000),
            method=method,
            path=path,
            request=request,
            replaced=[],
            state="open",
            answer=None,
        )
        # What cannot be sent is not stored either; and a tuple becomes the list that the store will give back.
        wanted = cast(Record, decode(encode(wanted)))
        # The key exists, durably, before the first attempt: whoever comes back after a crash finds it.
        record = check(intent, self._store.begin(intent, wanted))
        if (record["method"], record["path"]) != (method, path):
            raise IntentMismatch("this intent was begun with another operation")
        if record["request"] != wanted["request"] and record["state"] != "mendable":
            raise IntentMismatch("this intent was begun with another request, which may have been booked: call with that one")
        if record["answer"] is not None:
            return _finish(record["answer"], False, 0)

        # The server forgets a key after its retention. Sent again after that it would book again.
        left = record["created_at_ms"] / 1000 + self._keep_for - time.time()
        if left <= 0:
            raise OutcomeUnknown("this intent is too old to be sent again: look whether it was booked")
        # Nothing that was sent under this key so far can have been accepted.
        fresh = record["key"] == wanted["key"] or record["state"] == "mendable"
        if record["state"] == "mendable":
            if record["request"] != wanted["request"]:
                record["replaced"].append(record["request"])
                record["request"] = wanted["request"]
            record["state"] = "open"
            self._store.save(intent, record)
        headers = {"Idempotency-Key": f'"{record["key"]}"'}
        if record["request"]["if_match"] is not None:
            headers["If-Match"] = record["request"]["if_match"]
        if respond_async:
            headers["Prefer"] = "respond-async"
        sending = self._request(method, path, headers, record["request"]["body"])
        try:
            done, attempts = self._settle(sending, success, min(self._deadline, left))
        except Rejected as error:
            problem = cast(Problem, error.problem)
            self._save_answer(intent, record, {"status": problem["status"], "etag": None, "body": dict(problem)})
            raise
        except NeedsCorrection as error:
            # After an attempt of unknown outcome the request may have been accepted: no other may take its place.
            if fresh and error.attempts == 1:
                self._store.save(intent, record | {"state": "mendable"})
            raise
        except KeyReused:
            # Not this request has the key: rather the one before, whose refusal was not the whole truth.
            if record["replaced"]:
                record["request"] = record["replaced"].pop()
            self._store.save(intent, record | {"state": "mendable"})
            raise
        answer = SavedAnswer(status=done.status, etag=done.etag, body=done.body)
        self._save_answer(intent, record, answer)
        return _finish(answer, done.replayed, attempts)

    def _save_answer(self, intent: str, record: Record, answer: SavedAnswer) -> None:
        self._store.save(intent, record | {"state": "final", "answer": answer})

    def _request(self, method: str, path: str, headers: dict[str, str] | None = None, body: dict[str, Any] | None = None) -> Request:
        content = None if body is None else encode(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        return Request(method, self._base + path, self._headers | kind | (headers or {}), content)

    def _settle(self, request: Request, success: int, deadline: float) -> tuple[Done, int]:
        """Sends the same request until its answer is final or the deadline is over."""
        if deadline <= 0:
            raise OutcomeUnknown("no time to send anything")
        end = time.monotonic() + deadline
        attempts = 0
        last_problem: Problem | None = None

        def attempt() -> Done | Final:
            nonlocal attempts, last_problem, request
            attempts += 1
            try:
                response = self._http.send(request, min(self._attempt_timeout, end - time.monotonic()))
                return read(success, response.status, response.headers, response.content)
            except NotYet as not_yet:
                last_problem = not_yet.problem or last_problem
                if not_yet.accepted:
                    poll_for = int(max(1.0, min(10.0, self._attempt_timeout / 2)))
                    request = replace(request, headers=request.headers | {"Prefer": f"wait={poll_for}"})
                raise

        retrying = Retrying(
            retry=retry_if_exception_type(NotYet),
            wait=self._wait,
            stop=stop_before_delay(deadline),
            reraise=True,
        )
        try:
            result = retrying(attempt)
        except NotYet as not_yet:
            raise OutcomeUnknown(f"no final answer in time: {not_yet}", problem=last_problem, attempts=attempts) from not_yet
        if isinstance(result, Final):
            raise _error(result.problem, attempts)
        return result, attempts

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        after = error.after if isinstance(error, NotYet) else None
        if after is None:
            after = min(_LONGEST_PAUSE, self._pause * 2 ** min(state.attempt_number - 1, 16))
        else:
            after = max(after, self._pause)
        # Never earlier than asked, and not all clients at once.
        return after * random.uniform(1.0, 1.5)


def _path(reservation_id: str) -> str:
    return "/reservations/" + quote(reservation_id, safe="")


def _header(name: str, value: str) -> str:
    if _HEADER.fullmatch(value) is None:
        raise ValueError(f"{name} must be visible ASCII characters")
    return value


def _finish(answer: SavedAnswer, replayed: bool, attempts: int) -> Answer:
    if answer["status"] >= 400:
        raise _error(cast(Problem, answer["body"]), attempts)
    return Answer(cast(Reservation, answer["body"]), answer["etag"], replayed, attempts)


def _error(problem: Problem, attempts: int) -> ReservationError:
    kinds: dict[str, Callable[..., ReservationError]] = {"never": Rejected, "corrected": NeedsCorrection, "new_key": KeyReused}
    message = f"{problem['title']} {problem['detail']}"
    return kinds[problem["retry"]](message, problem=problem, attempts=attempts)
