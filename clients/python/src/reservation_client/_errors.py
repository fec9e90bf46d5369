"""How an operation can end without a reservation."""

from ._models import Problem


class ReservationError(Exception):
    """Every error of this package.

    ``intent`` is the name that the caller gave, ``None`` where the operation has none; the message begins with it.
    ``problem`` is the server's last problem document, if it sent one.
    """

    def __init__(self, message: str, *, problem: Problem | None = None, attempts: int = 0) -> None:
        super().__init__(message)
        self.problem = problem
        self.attempts = attempts
        self.intent: str | None = None

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.intent is None else f"intent {self.intent!r}: {message}"

    @property
    def code(self) -> str | None:
        """The problem's code, such as ``booking-rejected``."""
        return self.problem["code"] if self.problem else None


class Rejected(ReservationError):
    """Final: the booking system said no. The same intent gives the same error for ever."""


class NeedsCorrection(ReservationError):
    """A mistake in the request, or in the token. The key is kept: call again under the same intent with what was wrong put right.

    Where an earlier attempt had no answer it may have booked: then the intent takes the same request only.
    """


class KeyReused(ReservationError):
    """The key belongs to another request: a mistake in the program. Never "mend" it with a new key."""


class OutcomeUnknown(ReservationError):
    """Not known (yet) whether it is booked. Call again later under the same intent; never make a new one for it."""


class IntentMismatch(ReservationError):
    """This intent was begun with another request, which may have been booked. Nothing was sent."""


class DamagedRecord(ReservationError):
    """What the store has under this intent is no record of it. Nothing was sent."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # it names the intent itself
