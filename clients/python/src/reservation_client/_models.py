"""What goes over the wire, with the checks that let an answer be believed. A test compares these with openapi.yaml."""

from typing import Any, Literal, NotRequired, TypedDict


class NewReservation(TypedDict):
    """A reservation to be made. Times are RFC 3339 with an offset."""

    item_code: str
    quantity: int
    reserved_by: str
    starts_at: NotRequired[str | None]
    ends_at: NotRequired[str | None]
    note: NotRequired[str | None]


class ChangeReservation(TypedDict, total=False):
    """A change: an absent member stays as it is, ``None`` clears an optional one."""

    quantity: int
    starts_at: str | None
    ends_at: str | None
    note: str | None


class Reservation(TypedDict):
    """A reservation as the server shows it."""

    id: str
    status: Literal["pending", "confirmed", "rejected", "released", "cancelled"]
    item_code: str
    quantity: int
    reserved_by: str
    created_at: str
    updated_at: str
    starts_at: str | None
    ends_at: str | None
    note: str | None
    booking_id: str | None


class FieldError(TypedDict):
    """One fault in a request."""

    pointer: str
    detail: str


class Problem(TypedDict):
    """An error answer (RFC 9457). Decide by ``code``, show ``title`` and ``detail``."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retry: Literal["same_key", "corrected", "new_key", "never", "ask"]
    instance: NotRequired[str]
    errors: NotRequired[list[FieldError]]
    mismatch: NotRequired[list[str]]


def is_reservation(value: Any) -> bool:
    """Whether it is what the document says a `Reservation` is; a status of a later version is one too."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("id", "status", "item_code", "reserved_by", "created_at", "updated_at"))
        and type(value.get("quantity")) is int
        and -(2**31) <= value["quantity"] < 2**31
        and all(isinstance(value.get(name, 0), str | None) for name in ("starts_at", "ends_at", "note", "booking_id"))
    )


def is_key_status(value: Any) -> bool:
    """Whether it has what `Client.look_up` needs of an `IdempotencyKeyStatus`; a state of a later version is one too."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("operation", "state"))
        and isinstance(value.get("reservation_id", 0), str | None)
    )


def is_problem(value: Any) -> bool:
    """Whether it is what the document says a `Problem` is; a code or advice of a later version is one too."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("type", "title", "detail", "code", "retry"))
        and type(value.get("status")) is int
        and 400 <= value["status"] <= 599
        and isinstance(value.get("instance", ""), str)
        and isinstance(value.get("errors", []), list)
        and all(_is_field_error(error) for error in value.get("errors", []))
        and isinstance(value.get("mismatch", []), list)
        and all(isinstance(pointer, str) for pointer in value.get("mismatch", []))
    )


def _is_field_error(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("pointer"), str) and isinstance(value.get("detail"), str)
