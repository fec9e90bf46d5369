"""JSON as every language's helper reads and writes it."""

import json
from typing import Any


def encode(value: Any) -> bytes:
    """Raises `TypeError` or `ValueError` for what JSON does not have: dates, NaN, half of a surrogate pair."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def decode(content: bytes) -> Any:
    """Raises `ValueError` for what is not JSON in UTF-8, or is nested too deep."""
    try:
        value = json.loads(content.decode())
        encode(value)  # Python reads some that is no JSON
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return value
