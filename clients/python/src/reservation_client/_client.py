"""The operations."""

import math
import random
import re
import sys
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
from ._models import ChangeReservation, NewReservation, Problem, Reservation, is_key_status, is_reservation
from ._store import Record, SavedAnswer, SavedRequest, Store, check

_LONGEST_PAUSE = 30.0
# No setting and no server makes a client spin.
_SHORTEST_PAUSE = 0.1
_LARGEST_PAUSE_SETTING = 3600.0
# What the server answers to a create that the booking system refused. `Client.look_up` learns of it from the reservation.
_REJECTED = Problem(
    type="/problems/booking-rejected",
    title="The booking system rejected the reservation.",
    status=422,
    detail="The server shows the reservation as rejected; its own answer was lost.",
    code="booking-rejected",
    retry="never",
)
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
    :param deadline: for one call, all attempts and pauses together; whatever the server does, the call ends by then. 0 sends nothing;
        infinity is refused.
    :param attempt_timeout: for one attempt, more than 0; longer than the server's ``ANSWER_WITHIN`` (25 s) saves retries.
    :param pause: the first pause where the server names none, 0 to 3600; it doubles up to 30 s. No pause is shorter than 0.1 s.
    :param keep_for: an intent older than this is never sent again, more than 0; keep it below the server's ``retention_ms``
        (milliseconds!).
    :param http: an httpx client of your own, for proxies, certificates or hooks. It belongs to this one, and is closed with it.

    Raises `TypeError` or `ValueError` for a setting that cannot work; the message names it and its value, but never the token.
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
        if not isinstance(base_url, str):
            raise TypeError(f"base_url must be a text, not {base_url!r}")
        if httpx.URL(base_url).scheme not in ("http", "https") or not httpx.URL(base_url).host:
            raise ValueError(f"base_url must begin with http:// or https:// and name a host, not {base_url!r}")
        if not all(callable(getattr(store, name, None)) for name in ("begin", "save", "find")):
            raise TypeError(f"store must have the methods begin, save and find, not {store!r}")
        if token is not None and not isinstance(token, str):
            raise TypeError("token must be a text")
        if http is not None and not isinstance(http, httpx.AsyncClient):
            raise TypeError(f"http must be an httpx.AsyncClient, not {http!r}")
        self._base = base_url.rstrip("/")
        self._store = store
        self._headers = {} if token is None else {"Authorization": _header("token", token, "Bearer ")}
        self._deadline = _seconds("deadline", deadline, zero=True, most=sys.float_info.max)
        self._attempt_timeout = _seconds("attempt_timeout", attempt_timeout)
        self._pause = _seconds("pause", pause, zero=True, most=_LARGEST_PAUSE_SETTING)
        self._keep_for = _seconds("keep_for", keep_for)
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

    def look_up(self, intent: str) -> Answer | None:
        """Asks the server what happened under the intent's key, and closes the intent or frees it. Books nothing.

        The way out where an attempt had no answer and the next was refused (`NeedsCorrection`), so that the intent takes no other
        request. Call it with a token of the same account: no other account sees the key.

        Returns the reservation as it is now where the intent was carried out; the intent then has its answer. Returns ``None``
        where nothing was accepted: `create` or `change` takes another request under the same intent and key. Should the lost
        attempt arrive after that, the key lets only one of the two book.

        Raises `Rejected` where the booking system said no, `OutcomeUnknown` where that cannot be told yet.
        """
        try:
            return self._look_up(intent)
        except ReservationError as error:
            error.intent = intent
            raise

    def _look_up(self, intent: str) -> Answer | None:
        end = time.monotonic() + self._deadline
        record = self._find(intent)
        if record is None or record["state"] == "mendable":
            return None
        if record["answer"] is not None:
            return _finish(record["answer"], False, 0)
        create = record["method"] == "POST"
        operation = "createReservation" if create else "changeReservation"
        path = f"/idempotency-keys/{quote(record['key'], safe='')}?operation={operation}"
        try:
            found, attempts = self._settle(self._request("GET", path), 200, self._deadline, is_key_status)
        except NeedsCorrection as error:
            if error.code != "not-found":
                raise
            answer = self._stored(intent, error.attempts)
            if answer is not None:
                return answer
            # After its retention the server has forgotten the key, whatever was booked under it.
            if record["created_at_ms"] / 1000 + self._keep_for <= time.time():
                message = "the server does not know the key, which may be too old: look whether it was booked"
                raise OutcomeUnknown(message, problem=error.problem, attempts=error.attempts) from error
            self._store.save(intent, record | {"state": "mendable"})
            return None
        state, reservation_id = found.body["state"], found.body["reservation_id"]
        if state != "completed" or reservation_id is None or found.body["operation"] != operation:
            raise OutcomeUnknown(f"the key is {state}: make the same call again later", attempts=attempts)
        try:
            done, more = self._settle(self._request("GET", _path(reservation_id)), 200, end - time.monotonic())
        except ReservationError as error:
            raise OutcomeUnknown(f"the reservation cannot be read: {error}", problem=error.problem, attempts=attempts) from error
        attempts += more
        status = done.body["status"]
        if create and status == "rejected":
            self._save_answer(intent, record, {"status": 422, "etag": None, "body": dict(_REJECTED)})
            raise _error(_REJECTED, attempts)
        carried_out = status in ("confirmed", "cancelled") if create else _shows(done.body, record["request"]["body"])
        if not carried_out:
            raise OutcomeUnknown(f"reservation {reservation_id} does not show what became of it: look at it", attempts=attempts)
        answer_now = SavedAnswer(status=201 if create else 200, etag=done.etag, body=done.body)
        self._save_answer(intent, record, answer_now)
        return _finish(answer_now, False, attempts)

    def _find(self, intent: str) -> Record | None:
        found = self._store.find(intent)
        return None if found is None else check(intent, found)

    def _stored(self, intent: str, attempts: int) -> Answer | None:
        """The final answer that another attempt has stored meanwhile, if any. Raises where that is a refusal."""
        found = self._find(intent)
        return None if found is None or found["answer"] is None else _finish(found["answer"], False, attempts)

    def _keyed(self, intent: str, method: str, path: str, request: SavedRequest, success: int, respond_async: bool) -> Answer:
        try:
            return self._send_intent(intent, method, path, request, success, respond_async)
        except ReservationError as error:
            error.intent = intent
            raise

    def _send_intent(self, intent: str, method: str, path: str, request: SavedRequest, success: int, respond_async: bool) -> Answer:
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
        except ReservationError as error:
            # Another call may have stored the final answer since this one began: a late refusal must not overwrite it.
            stored = self._stored(intent, error.attempts)
            if stored is not None:
                return stored
            self._note_refusal(intent, record, error, fresh)
            raise
        answer = SavedAnswer(status=done.status, etag=done.etag, body=done.body)
        self._save_answer(intent, record, answer)
        return _finish(answer, done.replayed, attempts)

    def _note_refusal(self, intent: str, record: Record, error: ReservationError, fresh: bool) -> None:
        if isinstance(error, Rejected):
            problem = cast(Problem, error.problem)
            self._save_answer(intent, record, {"status": problem["status"], "etag": None, "body": dict(problem)})
        elif isinstance(error, NeedsCorrection) and fresh and error.attempts == 1:
            # After an attempt of unknown outcome the request may have been accepted: no other may take its place.
            self._store.save(intent, record | {"state": "mendable"})
        elif isinstance(error, KeyReused):
            # Not this request has the key: rather the one before, whose refusal was not the whole truth.
            if record["replaced"]:
                record["request"] = record["replaced"].pop()
            self._store.save(intent, record | {"state": "mendable"})

    def _save_answer(self, intent: str, record: Record, answer: SavedAnswer) -> None:
        self._store.save(intent, record | {"state": "final", "answer": answer})

    def _request(self, method: str, path: str, headers: dict[str, str] | None = None, body: dict[str, Any] | None = None) -> Request:
        content = None if body is None else encode(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        return Request(method, self._base + path, self._headers | kind | (headers or {}), content)

    def _settle(
        self, request: Request, success: int, deadline: float, expected: Callable[[Any], bool] = is_reservation
    ) -> tuple[Done, int]:
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
                return read(success, expected, response.status, response.headers, response.content)
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
        return max(after, _SHORTEST_PAUSE) * random.uniform(1.0, 1.5)


def _path(reservation_id: str) -> str:
    return "/reservations/" + quote(reservation_id, safe="")


def _header(name: str, value: str, before: str = "") -> str:
    if _HEADER.fullmatch(value) is None:
        raise ValueError(f"{name} must be visible ASCII characters")
    return before + value


def _seconds(name: str, value: float, *, zero: bool = False, most: float = math.inf) -> float:
    wanted = "a finite number of seconds" if most == sys.float_info.max else "a number of seconds"
    wanted += f" {'from 0' if zero else 'above 0'}" + (f" to {most:g}" if most < sys.float_info.max else "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
    # NaN is neither above nor below: such a deadline would never be over.
    if not ((0 <= value if zero else 0 < value) and value <= most):
        raise ValueError(f"{name} must be {wanted}, not {value!r}")
    return float(value) if value <= sys.float_info.max else math.inf


def _shows(reservation: dict[str, Any], change: dict[str, Any]) -> bool:
    return all(reservation.get(name) == value for name, value in change.items())


def _finish(answer: SavedAnswer, replayed: bool, attempts: int) -> Answer:
    if answer["status"] >= 400:
        raise _error(cast(Problem, answer["body"]), attempts)
    return Answer(cast(Reservation, answer["body"]), answer["etag"], replayed, attempts)


def _error(problem: Problem, attempts: int) -> ReservationError:
    kinds: dict[str, Callable[..., ReservationError]] = {"never": Rejected, "corrected": NeedsCorrection, "new_key": KeyReused}
    message = f"{problem['title']} {problem['detail']}"
    return kinds[problem["retry"]](message, problem=problem, attempts=attempts)
