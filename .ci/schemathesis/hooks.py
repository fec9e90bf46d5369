"""What the document cannot say: which strings are keys, tags and cursors, and that a period ends after it begins.

Cases that are meant to be valid get valid ones; cases that are meant to be refused are left as they are.
"""

import random
import uuid
from collections import deque

import schemathesis
from schemathesis.generation import GenerationMode

SENT_KEYS = deque(maxlen=100)
LAST = "9999-12-31T23:59:59Z"


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    if "Idempotency-Key" in (case.headers or {}):
        key = str(uuid.uuid4())
        SENT_KEYS.append(key)
        case.headers["Idempotency-Key"] = f'"{key}"'
    if case.operation.label.startswith("PATCH") or "If-Match" in (case.headers or {}):
        case.headers["If-Match"] = "*"
    if case.operation.label == "GET /idempotency-keys/{key}" and SENT_KEYS:
        case.path_parameters["key"] = random.choice(SENT_KEYS)
        case.query["operation"] = "createReservation"
    if "cursor" in (case.query or {}):
        case.query["cursor"] = str(uuid.uuid4())
    if isinstance(case.body, dict):
        # A change of one end is judged with the other one, which the reservation has.
        if case.body.get("starts_at") and (case.body.get("ends_at") or case.operation.label.startswith("PATCH")):
            case.body["ends_at"] = LAST
            if str(case.body["starts_at"]).startswith(LAST[:10]):
                case.body["starts_at"] = "2030-01-02T10:00:00+09:00"
        elif case.body.get("ends_at") and case.operation.label.startswith("PATCH"):
            case.body["starts_at"] = None
        for name, value in case.body.items():
            if isinstance(value, str):
                case.body[name] = value.replace("\0", "0")
        # Where the sandbox waits, as `SLOW-5` does, only patience would be tested.
        if str(case.body.get("item_code", "")).startswith("SLOW-"):
            case.body["item_code"] = "SLOW"
