"""The hand-written types are those of openapi.yaml."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from reservation_client import ChangeReservation, FieldError, NewReservation, Problem, Reservation
from reservation_client._models import is_problem, is_reservation

COMPONENTS = yaml.safe_load((Path(__file__).parents[3] / "openapi.yaml").read_text())["components"]
SCHEMAS = COMPONENTS["schemas"]


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


@pytest.mark.parametrize(
    ("check", "name", "example"),
    [(is_reservation, "Reservation", "createReservation-201"), (is_problem, "Problem", "request-invalid")],
)
def test_an_answer_needs_what_the_document_requires(check: Callable[[Any], bool], name: str, example: str) -> None:
    value, schema = COMPONENTS["examples"][example]["value"], SCHEMAS[name]
    assert check(value)
    for member in schema["required"]:
        assert not check({other: value[other] for other in value if other != member}), member
        assert check(value | {member: None}) == schema["properties"][member].get("nullable", False), member
    for member in value:
        assert not check(value | {member: [[]]}), member
