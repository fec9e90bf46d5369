"""One set of cases for the helpers of all languages, through a proxy that misbehaves.

    python cases.py [--table] [LANGUAGE...] [--only NAME]

Every case says what the caller must get, how often the proxy is asked, and how many bookings there are in the end; that all
requests of a case carry one key is checked in every case.
"""

import argparse
import itertools
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import proxy as p
from helpers import LANGUAGES, Run
from service import Service

TOKEN = "a-token-for-this-run-only"
names = itertools.count(1)


class Case:
    """What a case has to work with: a caller with a store of its own, behind a proxy of its own."""

    def __init__(self, service: Service, language: str, faults: list[p.Fault]) -> None:
        self.service = service
        self.language = language
        self.caller = f"{language}-{next(names)}"
        self.faults = faults

    def __enter__(self) -> "Case":
        self._folder = tempfile.TemporaryDirectory(prefix="store.")
        self.proxy = p.Proxy(self.service.port, self.faults).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__()
        self._folder.cleanup()

    def start(self, item: str = "ROOM", quantity: int = 1, language: str | None = None, **more: Any) -> Run:
        order = {
            "base_url": self.proxy.url,
            "store": self._folder.name,
            "operation": "create",
            "intent": "order/1",
            "body": {"item_code": item, "quantity": quantity, "reserved_by": self.caller},
            "deadline": 25,
            "attempt_timeout": 6,
            "pause": 0.2,
            "token": TOKEN,
        }
        run = Run(language or self.language, order | more)
        self.proxy.server.kill_client = run.kill
        return run

    def call(self, item: str = "ROOM", quantity: int = 1, **more: Any) -> dict[str, Any]:
        return self.start(item, quantity, **more).outcome()

    def check(self, outcome: dict[str, Any], result: str, *, asked: int | range, bookings: int = 1, code: str | None = None) -> None:
        assert outcome["result"] == result, f"{outcome}, wanted {result}"
        assert code is None or outcome.get("code") == code, f"{outcome}, wanted {code}"
        allowed = asked if isinstance(asked, range) else range(asked, asked + 1)
        assert len(self.proxy.seen) in allowed, f"asked {len(self.proxy.seen)} times, wanted {allowed}"
        keys = {seen.key for seen in self.proxy.seen if seen.method == "POST"}
        assert len(keys) <= 1, f"several keys: {keys}"
        found = len(self.service.bookings(self.caller))
        assert found == bookings, f"{found} bookings, wanted {bookings}"


def faults(*list_: p.Fault) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def mark(case: Callable[[Case], None]) -> Callable[[Case], None]:
        CASES.append((case, list(list_)))
        return case

    return mark


CASES: list[tuple[Callable[[Case], None], list[p.Fault]]] = []


@faults()
def all_is_well(c: Case) -> None:
    first, again = c.call(), c.call()
    c.check(first, "done", asked=1)
    assert first["id"] == again["id"] and again["attempts"] == 0, again


@faults(p.cut_before, p.cut_before)
def connection_dropped_before_the_server_saw_it(c: Case) -> None:
    c.check(c.call(), "done", asked=3)


# B67
@faults(p.cut_after)
def answer_dropped(c: Case) -> None:
    outcome = c.call()
    c.check(outcome, "done", asked=2)
    assert outcome["replayed"], outcome


@faults(p.reset_after)
def connection_reset_after_the_booking(c: Case) -> None:
    c.check(c.call(), "done", asked=2)


@faults(p.half_after)
def answer_cut_in_the_middle(c: Case) -> None:
    c.check(c.call(), "done", asked=2)


@faults(p.silent_after)
def answer_never_comes(c: Case) -> None:
    c.check(c.call(attempt_timeout=1), "done", asked=range(2, 5))


@faults(p.late(2))
def answer_later_than_the_time_out(c: Case) -> None:
    c.check(c.call(attempt_timeout=1), "done", asked=range(2, 5))


@faults(p.text_502, p.text_502)
def text_502_of_a_gateway(c: Case) -> None:
    c.check(c.call(), "done", asked=3)


@faults(p.text_502_after)
def text_502_after_the_booking(c: Case) -> None:
    outcome = c.call()
    c.check(outcome, "done", asked=2)
    assert outcome["replayed"], outcome


@faults(p.html_503_date)
def html_503_with_a_date_in_retry_after(c: Case) -> None:
    c.check(c.call(), "done", asked=2)
    gap = c.proxy.seen[1].at - c.proxy.seen[0].at
    assert gap > 0.9, gap


@faults(p.html_200, p.empty_201)
def success_that_is_not_the_servers(c: Case) -> None:
    c.check(c.call(), "done", asked=3)


@faults(p.redirect)
def redirect_is_not_followed(c: Case) -> None:
    c.check(c.call(), "done", asked=2)
    assert {seen.path for seen in c.proxy.seen} == {"/reservations"}


@faults(p.problem(503, "booking-system-unavailable", "same_key", 2), p.problem(503, "storage-unavailable", "same_key", 1))
def retry_after_is_kept(c: Case) -> None:
    c.check(c.call(), "done", asked=3)
    at = [seen.at for seen in c.proxy.seen]
    assert at[1] - at[0] >= 2 and at[2] - at[1] >= 1, at


@faults()
def still_in_progress_after_the_time_out(c: Case) -> None:
    outcome = c.call("SLOW-3", attempt_timeout=1)
    c.check(outcome, "done", asked=range(3, 8))
    assert outcome["replayed"], outcome


@faults()
def booking_system_drops_and_breaks(c: Case) -> None:
    c.check(c.call("DROP"), "done", asked=range(1, 4))


@faults()
def booking_system_stays_busy(c: Case) -> None:
    c.check(c.call("BUSY", deadline=5), "unknown", code="booking-system-busy", asked=range(1, 4), bookings=0)


@faults()
def asynchronous_and_polled(c: Case) -> None:
    outcome = c.call("SLOW-3", respond_async=True)
    c.check(outcome, "done", asked=range(2, 5))
    assert c.proxy.seen[0].prefer == "respond-async" and (c.proxy.seen[1].prefer or "").startswith("wait="), c.proxy.seen


@faults(p.problem(409, "outcome-unknown", "ask", 1), p.problem(409, "outcome-unknown", "ask"))
def ask_keeps_the_key(c: Case) -> None:
    c.check(c.call(), "done", asked=3)


@faults(*[p.problem(409, "outcome-unknown", "ask", 1)] * 3)
def ask_until_the_deadline_and_again_later(c: Case) -> None:
    c.check(c.call(deadline=2.4), "unknown", code="outcome-unknown", asked=range(1, 4), bookings=0)
    assert c.call()["result"] == "done"
    assert len({seen.key for seen in c.proxy.seen}) == 1 and len(c.service.bookings(c.caller)) == 1


@faults(*[p.text_502] * 99)
def total_deadline(c: Case) -> None:
    c.check(c.call(deadline=3), "unknown", asked=range(2, 8), bookings=0)
    assert c.proxy.seen[-1].at - c.proxy.seen[0].at <= 3, c.proxy.seen


@faults(p.problem(503, "booking-system-busy", "same_key", 3600))
def retry_after_beyond_the_deadline(c: Case) -> None:
    c.check(c.call(), "unknown", asked=1, bookings=0)


@faults()
def rejected_is_never_retried(c: Case) -> None:
    c.check(c.call("SOLD-OUT"), "rejected", code="booking-rejected", asked=1, bookings=0)
    again = c.call("SOLD-OUT")
    c.check(again, "rejected", code="booking-rejected", asked=1, bookings=0)
    assert again["attempts"] == 0


@faults()
def invalid_is_never_retried_and_mended_under_its_key(c: Case) -> None:
    c.check(c.call(quantity=0), "needs-correction", code="request-invalid", asked=1, bookings=0)
    c.check(c.call(quantity=2), "done", asked=2)


@faults(p.steal)
def key_of_another_request_is_never_retried(c: Case) -> None:
    c.check(c.call(), "key-reused", code="key-reused", asked=1)


@faults(p.cut_after, p.problem(401, "unauthenticated", "corrected"))
def refused_after_an_unknown_attempt_keeps_the_key(c: Case) -> None:
    c.check(c.call(), "needs-correction", code="unauthenticated", asked=2)
    c.check(c.call(), "done", asked=3)


@faults()
def other_request_under_a_known_intent_is_not_sent(c: Case) -> None:
    c.check(c.call(), "done", asked=1)
    c.check(c.call(quantity=2), "intent-mismatch", asked=1)


@faults(p.problem(503, "outcome-pending", "same_key", 3600))
def too_old_an_intent_is_not_sent(c: Case) -> None:
    c.check(c.call(), "unknown", asked=1, bookings=0)
    c.check(c.call(keep_for=0.001), "unknown", asked=1, bookings=0)


@faults(p.kill_before)
def client_killed_before_the_server_saw_it(c: Case) -> None:
    assert c.call()["result"] == "killed"
    c.check(c.call(), "done", asked=2)


@faults(p.kill_during)
def client_killed_while_the_server_works(c: Case) -> None:
    assert c.call("SLOW-2")["result"] == "killed"
    c.check(c.call("SLOW-2"), "done", asked=range(2, 6))


@faults(p.kill_after)
def client_killed_before_it_read_the_answer(c: Case) -> None:
    assert c.call()["result"] == "killed"
    outcome = c.call()
    c.check(outcome, "done", asked=2)
    assert outcome["replayed"], outcome


@faults(p.problem(503, "outcome-pending", "same_key", 5))
def client_killed_in_a_pause(c: Case) -> None:
    run = c.start()
    threading.Timer(2, run.kill).start()
    assert run.outcome()["result"] == "killed"
    c.check(c.call(), "done", asked=2)


@faults(p.kill_after, p.kill_before, p.cut_after, p.kill_after, p.text_502_after)
def client_killed_again_and_again(c: Case) -> None:
    outcomes = [c.call()["result"] for _ in range(4)]
    assert outcomes == ["killed", "killed", "killed", "done"], outcomes
    c.check(c.call(), "done", asked=6)


@faults(p.kill_after)
def begun_in_one_language_finished_in_another(c: Case) -> None:
    assert c.call()["result"] == "killed"
    other = LANGUAGES[(LANGUAGES.index(c.language) + 1) % len(LANGUAGES)]
    c.check(c.start(language=other).outcome(), "done", asked=2)


@faults()
def two_processes_with_one_intent(c: Case) -> None:
    first, second = c.start("SLOW-1"), c.start("SLOW-1")
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(Run.outcome, [first, second]))
    c.check(outcomes[0], "done", asked=range(1, 8))
    assert outcomes[0]["id"] == outcomes[1].get("id"), outcomes


@faults(p.pass_on, p.cut_after, p.text_502)
def change_with_a_dropped_answer(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "intent": "change/1", "id": made["id"], "if_match": made["etag"], "body": {"quantity": 5}}
    changed = c.call(**change)
    c.check(changed, "done", asked=4)
    assert changed["quantity"] == 5 and changed["replayed"], changed
    # Its ETag is stale by now: a repeated call must get the stored answer all the same.
    assert c.call(**change) == changed | {"attempts": 0, "replayed": False}
    reference = made["id"]
    assert len([e for e in c.service.events("changed") if e["reference"] == reference]) == 1


@faults(p.pass_on, p.pass_on, p.pass_on)
def stale_change_is_never_retried(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "id": made["id"], "if_match": made["etag"]}
    assert c.call(**change, intent="change/1", body={"quantity": 5})["result"] == "done"
    stale = c.call(**change, intent="change/2", body={"quantity": 6})
    assert (stale["result"], stale["code"], stale["attempts"]) == ("needs-correction", "version-stale", 1), stale


@faults(p.pass_on, p.cut_after, p.text_502)
def cancel_with_a_dropped_answer(c: Case) -> None:
    made = c.call()
    c.check(c.call(operation="cancel", id=made["id"]), "done", asked=4)
    assert len([e for e in c.service.events("cancelled") if e["reference"] == made["id"]]) == 1


def run_one(service: Service, language: str, case: Callable[[Case], None], list_: list[p.Fault]) -> str | None:
    try:
        with Case(service, language, list_) as context:
            case(context)
        return None
    except Exception:
        return traceback.format_exc(limit=-2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("languages", nargs="*", default=LANGUAGES)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    chosen = [(case, list_) for case, list_ in CASES if arguments.only in case.__name__]
    # The cases mostly wait, so many run at once.
    with Service(API_TOKENS=f"acme:{TOKEN}") as service, ThreadPoolExecutor(8) as pool:
        results = {
            (case.__name__, language): pool.submit(run_one, service, language, case, list_)
            for case, list_ in chosen
            for language in arguments.languages
        }
        failures = {where: error for where, future in results.items() if (error := future.result())}
    for (name, language), error in failures.items():
        print(f"--- {name} [{language}]\n{error}")
    if arguments.table:
        print(f"| case | {' | '.join(arguments.languages)} |\n|---|{'---|' * len(arguments.languages)}")
        for case, _ in chosen:
            marks = ["fails" if (case.__name__, language) in failures else "ok" for language in arguments.languages]
            print(f"| {case.__name__.replace('_', ' ')} | {' | '.join(marks)} |")
    print(f"{len(results) - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
