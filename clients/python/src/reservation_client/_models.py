"""What goes over the wire. A test compares these with openapi.yaml."""

from typing import Literal, NotRequired, TypedDict


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
    """A reservation as the server shows it. Members that are not set may be absent."""

    id: str
    status: Literal["pending", "confirmed", "rejected", "released", "cancelled"]
    item_code: str
    quantity: int
    reserved_by: str
    created_at: str
    updated_at: str
    starts_at: NotRequired[str | None]
    ends_at: NotRequired[str | None]
    note: NotRequired[str | None]
    booking_id: NotRequired[str | None]


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
