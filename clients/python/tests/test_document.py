"""The hand-written types are those of openapi.yaml."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from reservation_client import ChangeReservation, FieldError, NewReservation, Problem, Reservation

SCHEMAS = yaml.safe_load((Path(__file__).parents[3] / "openapi.yaml").read_text())["components"]["schemas"]


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (NewReservation, "CreateReservation"),
        (ChangeReservation, "ChangeReservation"),
        (Reservation, "Reservation"),
        (Problem, "Problem"),
        (FieldError, "FieldError"),
    ],
)
def test_members(ours: Any, name: str) -> None:
    schema = SCHEMAS[name]
    assert set(ours.__annotations__) == set(schema["properties"])
    # What the document promises may be left out here, never the other way round.
    assert ours.__required_keys__ <= set(schema.get("required", []))


def test_enumerations() -> None:
    assert set(get_args(get_type_hints(Reservation)["status"])) == set(SCHEMAS["ReservationStatus"]["enum"])
    assert set(get_args(get_type_hints(Problem)["retry"])) == set(SCHEMAS["RetryAdvice"]["enum"])
