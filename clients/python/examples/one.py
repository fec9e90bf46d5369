"""One operation, told as JSON on standard input, its outcome as JSON on standard output. The cases in ../../cases run it."""

import json
import sys

from reservation_client import (
    Client,
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
}


def main() -> None:
    order = json.load(sys.stdin)
    with Client(
        order["base_url"],
        FileStore(order["store"]),
        token=order.get("token"),
        deadline=order["deadline"],
        attempt_timeout=order["attempt_timeout"],
        pause=order["pause"],
        keep_for=order.get("keep_for", 72000),
    ) as client:
        try:
            match order["operation"]:
                case "create":
                    answer = client.create(order["intent"], order["body"], respond_async=order.get("respond_async", False))
                case "change":
                    answer = client.change(order["intent"], order["id"], order["body"], if_match=order["if_match"])
                case _:
                    client.cancel(order["id"])
                    print(json.dumps({"result": "done"}))
                    return
        except ReservationError as error:
            print(json.dumps({"result": RESULTS[type(error)], "code": error.code, "attempts": error.attempts}))
            return
        reservation = answer.reservation
        print(
            json.dumps(
                {
                    "result": "done",
                    "id": reservation["id"],
                    "quantity": reservation["quantity"],
                    "etag": answer.etag,
                    "replayed": answer.replayed,
                    "attempts": answer.attempts,
                }
            )
        )


if __name__ == "__main__":
    main()
