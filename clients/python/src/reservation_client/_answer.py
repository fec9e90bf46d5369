"""Reads one answer and decides: done, final error, or once more under the same key."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx

from ._json import decode
from ._models import Problem, is_problem


@dataclass
class Done:
    """A success that can be read."""

    status: int
    etag: str | None
    replayed: bool
    body: dict[str, Any]


@dataclass
class Final:
    """A problem that no retry of the same request can change."""

    problem: Problem


class NotYet(Exception):
    """The outcome is not known yet: send the same request again under the same key."""

    def __init__(self, reason: str, *, after: float | None = None, problem: Problem | None = None, accepted: bool = False):
        super().__init__(reason)
        self.after = after
        self.problem = problem
        self.accepted = accepted


def read(success: int, expected: Callable[[Any], bool], status: int, headers: httpx.Headers, content: bytes) -> Done | Final:
    """Raises `NotYet` unless the answer is final. ``success``: the one status that means done; ``expected``: what its body must be."""
    after = _retry_after(headers.get("Retry-After"))
    body = _body(content)
    if status == 202:
        raise NotYet("accepted, not finished", after=after, accepted=True)
    if status == success and (success == 204 or expected(body)):
        return Done(status, headers.get("ETag"), headers.get("Idempotent-Replayed") == "true", body)
    if is_problem(body) and body["status"] == status:
        problem = cast(Problem, body)
        match problem["retry"]:
            case "never" | "corrected" | "new_key":
                return Final(problem)
            case "same_key" | "ask":
                raise NotYet(problem["code"], after=after, problem=problem)
    # A gateway's page, a truncated body, a redirect, advice from a later version: it says nothing about the booking.
    raise NotYet(f"status {status} without an answer of the server", after=after)


def _body(content: bytes) -> Any:
    try:
        return decode(content)
    except ValueError:
        return None


def _retry_after(value: str | None) -> float | None:
    """Seconds, or a date as gateways send it."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
