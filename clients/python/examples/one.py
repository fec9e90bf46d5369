"""One operation, told as JSON on standard input, its outcome as JSON on standard output. The cases in ../../cases run it."""

import json
import sys
from typing import Any

from reservation_client import (
    Client,
    DamagedRecord,
    FileStore,
    IntentMismatch,
    KeyReused,
    NeedsCorrection,
    OutcomeUnknown,
    Rejected,
    ReservationError,
)

RESULTS: dict[type[ReservationError], str] = {
    Rejected: "rejected",
    NeedsCorrection: "needs-correction",
    KeyReused: "key-reused",
    OutcomeUnknown: "unknown",
    IntentMismatch: "intent-mismatch",
    DamagedRecord: "damaged",
}


def main() -> None:
    try:
        print(json.dumps(outcome(json.load(sys.stdin))))
    except ReservationError as error:
        known = {"intent": error.intent, "code": error.code, "attempts": error.attempts, "message": str(error)}
        print(json.dumps({"result": RESULTS[type(error)]} | known))
    except WrongSetting as error:
        print(json.dumps({"result": "wrong-setting", "message": str(error)}))
    except OSError as error:
        print(json.dumps({"result": "store-failed", "message": str(error)}))


class WrongSetting(Exception):
    pass


def make(order: dict[str, Any]) -> Client:
    store = FileStore(order["store"])
    try:
        return Client(
            order["base_url"],
            store,
            token=order.get("token"),
            deadline=order["deadline"],
            attempt_timeout=order["attempt_timeout"],
            pause=order["pause"],
            keep_for=order.get("keep_for", 72000),
        )
    except ValueError as error:
        raise WrongSetting(str(error)) from error


def outcome(order: dict[str, Any]) -> dict[str, Any]:
    with make(order) as client:
        match order["operation"]:
            case "create":
                answer = client.create(order["intent"], order["body"], respond_async=order.get("respond_async", False))
            case "change":
                answer = client.change(order["intent"], order["id"], order["body"], if_match=order["if_match"])
            case "look-up":
                found = client.look_up(order["intent"])
                if found is None:
                    return {"result": "nothing"}
                answer = found
            case _:
                client.cancel(order["id"])
                return {"result": "done"}
    reservation = answer.reservation
    return {
        "result": "done",
        "id": reservation["id"],
        "quantity": reservation["quantity"],
        "etag": answer.etag,
        "replayed": answer.replayed,
        "attempts": answer.attempts,
    }


if __name__ == "__main__":
    main()
