"""The operations."""

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay

from ._answer import Done, Final, NotYet, read
from ._errors import IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError
from ._models import ChangeReservation, NewReservation, Problem, Reservation
from ._store import Record, Store

_LONGEST_PAUSE = 30.0
_LARGEST_ANSWER = 1 << 20


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
    """Sends each intent under one key until its answer is final.

    :param store: keeps the intents; see `Store`.
    :param token: sent as a bearer token.
    :param deadline: seconds for one call, all attempts and pauses together.
    :param attempt_timeout: seconds for one attempt; longer than the server's ``ANSWER_WITHIN`` (25 s) saves retries.
    :param pause: the first pause where the server names none; it doubles up to 30 s.
    :param keep_for: an intent older than this is never sent again; keep it below the server's ``retention_ms``.
    :param http: an httpx client of your own, for proxies, certificates or hooks.
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
        http: httpx.Client | None = None,
    ) -> None:
        if httpx.URL(base_url).scheme not in ("http", "https"):
            raise ValueError("base_url must begin with http:// or https://")
        self._base = base_url.rstrip("/")
        self._store = store
        self._token = token
        self._deadline = deadline
        self._attempt_timeout = attempt_timeout
        self._pause = pause
        self._keep_for = keep_for
        self._http = http or httpx.Client()
        self._owns_http = http is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, unless ``http`` was yours."""
        if self._owns_http:
            self._http.close()

    def create(self, intent: str, reservation: NewReservation, *, respond_async: bool = False) -> Answer:
        """Makes a reservation, once for this intent however often it is called.

        :param intent: your own name of what you want, such as an order number.
        :param respond_async: ask the server not to hold the connection; the answer is then polled.
        """
        return self._keyed(intent, "POST", "/reservations", None, dict(reservation), 201, respond_async)

    def change(self, intent: str, reservation_id: str, change: ChangeReservation, *, if_match: str) -> Answer:
        """Changes a reservation, once for this intent. ``if_match``: the ETag of what the change was decided on."""
        return self._keyed(intent, "PATCH", _path(reservation_id), if_match, dict(change), 200, False)

    def cancel(self, reservation_id: str) -> None:
        """Cancels a reservation. Needs no intent: cancelling twice is cancelling once."""
        self._settle("DELETE", _path(reservation_id), {}, None, 204, self._deadline)

    def get(self, reservation_id: str) -> Answer:
        """Reads a reservation."""
        done, attempts = self._settle("GET", _path(reservation_id), {}, None, 200, self._deadline)
        return Answer(cast(Reservation, done.body), done.etag, False, attempts)

    def _keyed(
        self, intent: str, method: str, path: str, if_match: str | None, body: dict[str, Any], success: int, respond_async: bool
    ) -> Answer:
        # The key exists, durably, before the first attempt: whoever comes back after a crash finds it.
        wanted = Record(
            key=str(uuid.uuid4()),
            created_at_ms=int(time.time() * 1000),
            method=method,
            path=path,
            if_match=if_match,
            body=body,
            state="open",
            answer=None,
        )
        record = self._store.begin(intent, wanted)
        if (record["method"], record["path"]) != (method, path):
            raise IntentMismatch("this intent was begun with another operation")
        if (record["if_match"], record["body"]) != (if_match, body):
            # A refused request may be mended. Safe under the same key: had it been spent after all, the server would say so.
            if record["state"] != "corrected":
                raise IntentMismatch("this intent was begun with another request")
            record = record | {"if_match": if_match, "body": body, "state": "open"}
            self._store.save(intent, record)
        if record["answer"] is not None:
            return _finish(record, False, 0)

        # The server forgets a key after its retention. Sent again after that it would book again.
        left = record["created_at_ms"] / 1000 + self._keep_for - time.time()
        if left <= 0:
            raise OutcomeUnknown("this intent is too old to be sent again: look whether it was booked")
        headers = {"Idempotency-Key": f'"{record["key"]}"'}
        if record["if_match"] is not None:
            headers["If-Match"] = record["if_match"]
        if respond_async:
            headers["Prefer"] = "respond-async"
        try:
            done, attempts = self._settle(method, path, headers, body, success, min(self._deadline, left))
        except (Rejected, NeedsCorrection) as error:
            if isinstance(error, Rejected) and error.problem is not None:
                answer = {"status": error.problem["status"], "etag": None, "body": dict(error.problem)}
                self._store.save(intent, cast(Record, record | {"state": "final", "answer": answer}))
            else:
                self._store.save(intent, record | {"state": "corrected"})
            raise
        record = record | {"state": "final", "answer": {"status": done.status, "etag": done.etag, "body": done.body}}
        self._store.save(intent, record)
        return _finish(record, done.replayed, attempts)

    def _settle(
        self, method: str, path: str, headers: dict[str, str], body: dict[str, Any] | None, success: int, deadline: float
    ) -> tuple[Done, int]:
        """Sends the same request until its answer is final or the deadline is over."""
        end = time.monotonic() + deadline
        attempts = 0
        last_problem: Problem | None = None

        def attempt() -> Done | Final:
            nonlocal attempts, last_problem
            attempts += 1
            try:
                return self._send(method, path, headers, body, success, end)
            except NotYet as not_yet:
                last_problem = not_yet.problem or last_problem
                if not_yet.accepted:
                    headers["Prefer"] = f"wait={max(1, min(10, int(self._attempt_timeout / 2)))}"
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

    def _send(self, method: str, path: str, headers: dict[str, str], body: dict[str, Any] | None, success: int, end: float) -> Done | Final:
        if self._token is not None:
            headers = headers | {"Authorization": f"Bearer {self._token}"}
        end = min(end, time.monotonic() + self._attempt_timeout)
        timeout = max(0.001, end - time.monotonic())
        try:
            # Redirects would send the body elsewhere, or turn the POST into a GET.
            with self._http.stream(
                method, self._base + path, headers=headers, json=body, timeout=timeout, follow_redirects=False
            ) as response:
                content = b""
                for chunk in response.iter_bytes():
                    content += chunk
                    # httpx limits each read, not all of them together.
                    if time.monotonic() > end or len(content) > _LARGEST_ANSWER:
                        raise NotYet("the answer did not end")
        except (httpx.TransportError, httpx.DecodingError) as error:
            if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
                raise  # a mistake on this side: it would fail every time
            raise NotYet(f"no answer: {type(error).__name__}") from error
        return read(success, response, content)

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


def _finish(record: Record, replayed: bool, attempts: int) -> Answer:
    answer = record["answer"]
    if answer is None or answer["status"] >= 400:
        raise _error(cast(Problem, answer["body"] if answer else {}), attempts)
    return Answer(cast(Reservation, answer["body"]), answer["etag"], replayed, attempts)


def _error(problem: Problem, attempts: int) -> ReservationError:
    kinds: dict[str, Callable[..., ReservationError]] = {"never": Rejected, "corrected": NeedsCorrection, "new_key": KeyReused}
    message = f"{problem['title']} {problem['detail']}"
    return kinds[problem["retry"]](message, problem=problem, attempts=attempts)
