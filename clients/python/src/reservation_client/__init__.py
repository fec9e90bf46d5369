"""Reservations that can be retried safely: one key per intent, kept until its answer is final."""

from ._client import Answer, Client
from ._errors import DamagedRecord, IntentMismatch, KeyReused, NeedsCorrection, OutcomeUnknown, Rejected, ReservationError
from ._models import ChangeReservation, FieldError, NewReservation, Problem, Reservation
from ._store import FileStore, MemoryStore, Record, SavedAnswer, SavedRequest, Store

__all__ = [
    "Answer",
    "ChangeReservation",
    "Client",
    "DamagedRecord",
    "FieldError",
    "FileStore",
    "IntentMismatch",
    "KeyReused",
    "MemoryStore",
    "NeedsCorrection",
    "NewReservation",
    "OutcomeUnknown",
    "Problem",
    "Record",
    "Rejected",
    "Reservation",
    "ReservationError",
    "SavedAnswer",
    "SavedRequest",
    "Store",
]
