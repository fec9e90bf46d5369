"""One set of cases for the helpers of all languages, through a proxy that misbehaves.

    python cases.py [--table] [LANGUAGE...] [--only NAME]

Every case says what the caller must get, how often the proxy is asked, and how many bookings there are in the end; that all
requests of a case carry one key is checked in every case.
"""

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
        self.store = Path(self._folder.name)
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

    def file(self, intent: str = "order/1") -> Path:
        return self.store / f"{hashlib.sha256(intent.encode()).hexdigest()}.json"

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.file().read_text())
        return record

    def call(self, item: str = "ROOM", quantity: int = 1, **more: Any) -> dict[str, Any]:
        return self.start(item, quantity, **more).outcome()

    def bookings(self) -> int:
        return len(self.service.bookings(self.caller))

    def check(self, outcome: dict[str, Any], result: str, *, asked: int | range, bookings: int = 1, code: str | None = None) -> None:
        assert outcome["result"] == result, f"{outcome}, wanted {result}"
        assert code is None or outcome.get("code") == code, f"{outcome}, wanted {code}"
        allowed = asked if isinstance(asked, range) else range(asked, asked + 1)
        assert len(self.proxy.seen) in allowed, f"asked {len(self.proxy.seen)} times, wanted {allowed}"
        keys = {seen.key for seen in self.proxy.seen if seen.method == "POST"}
        assert len(keys) <= 1, f"several keys: {keys}"
        found = self.bookings()
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


RESERVATION = [
    "booking_id",
    "created_at",
    "ends_at",
    "id",
    "item_code",
    "note",
    "quantity",
    "reserved_by",
    "starts_at",
    "status",
    "updated_at",
]
PROBLEM = {"type": "/p", "title": "t", "status": 422, "detail": "d", "code": "booking-rejected", "retry": "never"}
WRONG = [
    {"status": 200},
    {"status": 409},
    {"retry": None},
    {"title": 1},
    {"instance": None},
    {"errors": {}},
    {"errors": [{}]},
    {"mismatch": [1]},
]


@faults(*map(p.without, RESERVATION))
def success_without_a_member(c: Case) -> None:
    c.check(c.call(pause=0.01), "done", asked=len(RESERVATION) + 1)


@faults(
    *[p.answer_of(422, {name: PROBLEM[name] for name in PROBLEM if name != member}) for member in PROBLEM],
    *[p.answer_of(422, PROBLEM | wrong) for wrong in WRONG],
    p.answer_of(422, b"\xff\xfe"),
    p.answer_of(422, b'"' + json.dumps(PROBLEM).encode()),
    p.answer_of(422, json.dumps(PROBLEM | {"note": "\ud800"}).encode()),
)
def problem_that_is_not_the_servers(c: Case) -> None:
    c.check(c.call(pause=0.01), "done", asked=len(PROBLEM) + len(WRONG) + 4)


@faults(p.answer_of(502, b"[" * 100_000), p.answer_of(422, b'{"a":' * 100_000), p.answer_of(201, b"[" * 900_000))
def json_that_is_nested_too_deep(c: Case) -> None:
    c.check(c.call(), "done", asked=4)


@faults(
    p.answer_of(503, b"busy", **{"Retry-After": "Wed, 01 Jan 99999999999999999999 00:00:00 GMT"}),
    p.answer_of(503, b"busy", **{"Retry-After": "1.5"}),
    p.answer_of(503, b"busy", **{"Retry-After": "-1"}),
    p.answer_of(503, b"busy", **{"Retry-After": ""}),
)
def retry_after_that_is_none(c: Case) -> None:
    c.check(c.call(pause=0.01), "done", asked=5)


@faults(p.answer_of(503, b"busy", **{"Retry-After": "9" * 400}))
def retry_after_without_end(c: Case) -> None:
    c.check(c.call(), "unknown", asked=1, bookings=0)


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


def in_time(c: Case, bookings: int = 0, **more: Any) -> None:
    """Through the attempt's limit and the deadline's: a start of the program is in it, too."""
    began = time.monotonic()
    c.check(c.call(deadline=3, attempt_timeout=1, **more), "unknown", asked=range(2, 5), bookings=bookings)
    took = time.monotonic() - began
    assert took < 6, took
    c.proxy.server.faults.clear()
    outcome = c.call()
    assert outcome["result"] == "done", outcome


@faults(*[p.slow_head] * 9)
def head_that_does_not_end(c: Case) -> None:
    in_time(c)


@faults(*[p.interim_for_ever] * 9)
def interim_answers_without_end(c: Case) -> None:
    in_time(c)


@faults(*[p.then(p.unheard, p.slow_body)] * 9)
def body_that_does_not_end(c: Case) -> None:
    in_time(c, bookings=1)


@faults(p.endless_body)
def body_without_limit(c: Case) -> None:
    began = time.monotonic()
    c.check(c.call(attempt_timeout=20), "done", asked=2)
    assert time.monotonic() - began < 10


@faults()
def no_time_at_all(c: Case) -> None:
    c.check(c.call(deadline=0), "unknown", asked=0, bookings=0)
    c.check(c.call(), "done", asked=1)


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


@faults(p.cut_after, p.problem(401, "unauthenticated", "corrected"))
def refused_after_an_unknown_attempt_takes_no_other_request(c: Case) -> None:
    c.check(c.call(), "needs-correction", code="unauthenticated", asked=2)
    c.check(c.call(quantity=2), "intent-mismatch", asked=2)
    outcome = c.call()
    c.check(outcome, "done", asked=3)
    assert outcome["replayed"] and outcome["quantity"] == 1, outcome


@faults(p.kill_after, p.problem(401, "unauthenticated", "corrected"))
def refused_after_a_killed_attempt_takes_no_other_request(c: Case) -> None:
    assert c.call()["result"] == "killed"
    c.check(c.call(), "needs-correction", code="unauthenticated", asked=2)
    c.check(c.call(quantity=2), "intent-mismatch", asked=2)
    c.check(c.call(), "done", asked=3)


@faults(p.problem(401, "unauthenticated", "corrected"), p.kill_after)
def token_mended_and_killed_takes_no_other_request(c: Case) -> None:
    c.check(c.call(), "needs-correction", code="unauthenticated", asked=1, bookings=0)
    assert c.call()["result"] == "killed"
    c.check(c.call(quantity=2), "intent-mismatch", asked=2)
    outcome = c.call()
    c.check(outcome, "done", asked=3)
    assert outcome["replayed"], outcome


@faults(p.then(p.unheard, p.problem(401, "unauthenticated", "corrected")), p.pass_on, p.cut_before)
def key_reused_after_a_mend_goes_back(c: Case) -> None:
    """A gateway that says no although the server has booked."""
    c.check(c.call(), "needs-correction", code="unauthenticated", asked=1)
    c.check(c.call(quantity=2), "key-reused", code="key-reused", asked=2)
    assert c.record()["request"]["body"]["quantity"] == 1, c.record()
    other = LANGUAGES[(LANGUAGES.index(c.language) + 1) % len(LANGUAGES)]
    outcome = c.start(language=other).outcome()
    c.check(outcome, "done", asked=4)
    assert outcome["replayed"] and outcome["quantity"] == 1, outcome
    c.check(c.call(quantity=2), "intent-mismatch", asked=4)


@faults(*[p.problem(401, "unauthenticated", "corrected")] * 2)
def mended_again_and_again_under_its_key(c: Case) -> None:
    c.check(c.call(), "needs-correction", asked=1, bookings=0)
    c.check(c.call(quantity=2), "needs-correction", asked=2, bookings=0)
    c.check(c.call(quantity=3), "done", asked=3)
    assert [request["body"]["quantity"] for request in c.record()["replaced"]] == [1, 2], c.record()


def damaged(c: Case, content: bytes, asked: int = 0) -> None:
    c.file().write_bytes(content)
    outcome = c.call()
    c.check(outcome, "damaged", asked=asked, bookings=0)
    assert "order/1" in outcome["message"] and c.file().name in outcome["message"], outcome


@faults(p.problem(503, "outcome-pending", "same_key", 3600))
def damaged_record_is_not_sent(c: Case) -> None:
    c.check(c.call(), "unknown", asked=1, bookings=0)
    whole = c.record()
    for member in whole:
        damaged(c, json.dumps({name: whole[name] for name in whole if name != member}).encode(), asked=1)
    for wrong in [{"key": None}, {"key": 'a"b'}, {"intent": "order/2"}, {"state": "final"}, {"request": {"body": {}}}, {"replaced": [{}]}]:
        damaged(c, json.dumps(whole | wrong).encode(), asked=1)
    for body in [{}, {"id": "1"}, PROBLEM | {"retry": "corrected"}]:
        answer = {"status": 422 if "retry" in body else 201, "etag": None, "body": body}
        damaged(c, json.dumps(whole | {"state": "final", "answer": answer}).encode(), asked=1)
    for content in [b"", b"{}", b"null", b"\xff", json.dumps(whole).encode()[:-9], b"[" * 100_000]:
        damaged(c, content, asked=1)
    c.file().write_text(json.dumps(whole))
    c.check(c.call(), "done", asked=2)


@faults()
def store_that_cannot_be_written_sends_nothing(c: Case) -> None:
    (c.store / "file").write_text("no folder")
    for store in [c.store / "file", c.store / "file" / "intents"]:
        c.check(c.call(store=str(store)), "store-failed", asked=0, bookings=0)


@faults()
def intents_of_any_name(c: Case) -> None:
    names = ["予約" * 60, "A", "a", "../a", "a/b", "a" * 300, "x\ny"]
    outcomes = [c.call(intent=name) for name in names]
    assert len({outcome.get("id") for outcome in outcomes}) == len(names) and None not in outcomes, outcomes
    assert sorted(file.name for file in c.store.iterdir()) == sorted(c.file(name).name for name in names)


@faults(p.then(p.unheard, p.problem(503, "outcome-pending", "same_key", 3600)))
def absent_and_null_are_one_request(c: Case) -> None:
    body = {"item_code": "ROOM", "quantity": 1, "reserved_by": c.caller}
    c.check(c.call(body=body | {"note": None}), "unknown", asked=1)
    c.check(c.call(body=body), "done", asked=2)
    c.check(c.call(body=body | {"starts_at": None, "ends_at": None}), "done", asked=2)


@faults()
def other_request_under_a_known_intent_is_not_sent(c: Case) -> None:
    c.check(c.call(), "done", asked=1)
    c.check(c.call(quantity=2), "intent-mismatch", asked=1)


@faults(p.problem(503, "outcome-pending", "same_key", 3600))
def too_old_an_intent_is_not_sent(c: Case) -> None:
    c.check(c.call(), "unknown", asked=1, bookings=0)
    c.check(c.call(keep_for=0.001), "unknown", asked=1, bookings=0)


@faults(p.problem(401, "unauthenticated", "corrected"), p.problem(503, "outcome-pending", "same_key", 3600), p.pass_on)
def errors_name_their_intent(c: Case) -> None:
    outcomes = [c.call(), c.call(), c.call("SOLD-OUT", intent="order/2"), c.call("SOLD-OUT", intent="order/2")]
    outcomes += [c.call(quantity=2), c.call(keep_for=0.001)]
    names = ["needs-correction", "unknown", "rejected", "rejected", "intent-mismatch", "unknown"]
    assert [outcome["result"] for outcome in outcomes] == names, outcomes
    for outcome, intent in zip(outcomes, ["order/1"] * 2 + ["order/2"] * 2 + ["order/1"] * 2, strict=True):
        assert outcome.get("intent") == intent and intent in outcome["message"], outcome


def late(answer: p.Fault, held: threading.Event) -> p.Fault:
    """Gives its answer when another call has got its own."""

    def fault(x: p.Exchange) -> None:
        held.wait(30)
        answer(x)

    return fault


def late_refusal(c: Case, refusal: p.Fault) -> None:
    """One call is held at the proxy, another is answered, then the first is refused."""
    held = threading.Event()
    c.proxy.server.faults = [late(refusal, held)]
    slow = c.start(attempt_timeout=20)
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(slow.outcome)
        while not c.proxy.seen:
            time.sleep(0.01)
        try:
            first = c.call()
            stored = c.record()
        finally:
            held.set()
        c.check(first, "done", asked=2)
        second = outcome.result()
    c.check(second, "done", asked=2)
    assert (second["id"], c.record()) == (first["id"], stored), (second, c.record())
    again = c.call()
    c.check(again, "done", asked=2)
    assert again["attempts"] == 0, again


@faults()
def late_rejection_overwrites_no_stored_answer(c: Case) -> None:
    late_refusal(c, p.problem(422, "booking-rejected", "never"))


@faults()
def late_correction_overwrites_no_stored_answer(c: Case) -> None:
    late_refusal(c, p.problem(401, "unauthenticated", "corrected"))


@faults()
def late_reuse_overwrites_no_stored_answer(c: Case) -> None:
    late_refusal(c, p.problem(422, "key-reused", "new_key"))


@faults(*[p.answer_of(503, b"busy")] * 5000)
def no_pause_and_retry_after_0_do_not_spin(c: Case) -> None:
    c.check(c.call(pause=0, deadline=1.5), "unknown", asked=range(2, 16), bookings=0)
    at = [seen.at for seen in c.proxy.seen]
    assert min(later - earlier for earlier, later in zip(at, at[1:], strict=False)) >= 0.09, at


@faults()
def settings_are_checked(c: Case) -> None:
    wrong = {"attempt_timeout": 0, "keep_for": 0, "pause": 7200, "token": "a\nb", "base_url": "ftp://127.0.0.1"}
    for name, value in wrong.items():
        outcome = c.call(**{name: value})
        named = outcome.get("message", "").replace("attemptTimeout", "attempt_timeout").replace("keepFor", "keep_for")
        assert outcome["result"] == "wrong-setting" and name in named.replace("baseUrl", "base_url"), outcome
        assert name == "token" or str(value) in named, outcome
    assert list(c.store.iterdir()) == [] and c.proxy.seen == []


INVALID = p.problem(400, "request-invalid", "corrected")


def mending(c: Case) -> None:
    """The first attempt had no answer and the second was refused: the intent takes no other request."""
    c.check(c.call(), "needs-correction", code="request-invalid", asked=2, bookings=c.bookings())
    c.check(c.call(quantity=2), "intent-mismatch", asked=2, bookings=c.bookings())


@faults(p.cut_before, INVALID)
def looked_up_and_not_known_the_intent_goes_on(c: Case) -> None:
    mending(c)
    c.check(c.call(operation="look-up"), "nothing", asked=3, bookings=0)
    outcome = c.call(quantity=2)
    c.check(outcome, "done", asked=4)
    assert outcome["quantity"] == 2, outcome


@faults(p.cut_after, INVALID, p.text_502)
def looked_up_and_booked_the_intent_is_closed(c: Case) -> None:
    mending(c)
    found = c.call(operation="look-up")
    c.check(found, "done", asked=5)
    again = c.call()
    c.check(again, "done", asked=5)
    assert (again["id"], again["etag"], again["attempts"]) == (found["id"], found["etag"], 0), (found, again)
    assert c.call(operation="look-up")["attempts"] == 0


@faults(p.cut_after, INVALID)
def looked_up_and_rejected_the_intent_is_closed(c: Case) -> None:
    c.check(c.call("SOLD-OUT"), "needs-correction", code="request-invalid", asked=2, bookings=0)
    c.check(c.call("SOLD-OUT", operation="look-up"), "rejected", code="booking-rejected", asked=4, bookings=0)
    c.check(c.call("SOLD-OUT"), "rejected", code="booking-rejected", asked=4, bookings=0)


@faults(p.cut_before, INVALID, *[p.text_502] * 99)
def looked_up_without_an_answer_nothing_changes(c: Case) -> None:
    mending(c)
    record = c.record()
    outcome = c.call(operation="look-up", deadline=1)
    c.check(outcome, "unknown", asked=range(3, 10), bookings=0)
    assert c.record() == record and outcome["intent"] == "order/1", outcome


@faults(p.cut_before, INVALID)
def looked_up_when_it_may_be_too_old_nothing_changes(c: Case) -> None:
    mending(c)
    record = c.record()
    c.check(c.call(operation="look-up", keep_for=0.001), "unknown", asked=3, bookings=0)
    assert c.record() == record


@faults(p.cut_before, INVALID, p.pass_on, p.pass_on, p.cut_before)
def looked_up_and_mended_the_lost_attempt_arrives(c: Case) -> None:
    """The key lets one of the two book."""
    mending(c)
    c.check(c.call(operation="look-up"), "nothing", asked=3, bookings=0)
    first, key = c.proxy.seen[0].body, c.proxy.seen[0].key
    headers = {"Content-Type": "application/json", "Idempotency-Key": key or "", "Authorization": f"Bearer {TOKEN}"}
    lost = urllib.request.Request(f"http://127.0.0.1:{c.service.port}/reservations", first, headers)
    with urllib.request.urlopen(lost, timeout=30) as answer:
        assert answer.status == 201
    c.check(c.call(quantity=2), "key-reused", code="key-reused", asked=4)
    outcome = c.call()
    c.check(outcome, "done", asked=6)
    assert outcome["quantity"] == 1, outcome


@faults()
def looked_up_and_unknown_to_the_store_nothing_is_asked(c: Case) -> None:
    c.check(c.call(operation="look-up"), "nothing", asked=0, bookings=0)
    assert list(c.store.glob("*.json")) == []


@faults(p.pass_on, p.cut_after, INVALID)
def looked_up_change_that_was_made_is_closed(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "intent": "change/1", "id": made["id"], "if_match": made["etag"]}
    assert c.call(**change, body={"quantity": 5})["result"] == "needs-correction"
    found = c.call(operation="look-up", intent="change/1")
    assert (found["result"], found["quantity"], found["attempts"]) == ("done", 5, 2), found
    assert c.call(**change, body={"quantity": 5}) == found | {"attempts": 0}


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


@faults(p.pass_on, p.kill_after)
def change_begun_in_one_language_finished_in_another(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "intent": "change/1", "id": made["id"], "if_match": made["etag"], "body": {"quantity": 5}}
    assert c.call(**change)["result"] == "killed"
    other = LANGUAGES[(LANGUAGES.index(c.language) + 1) % len(LANGUAGES)]
    changed = c.start(language=other, **change).outcome()
    assert (changed["result"], changed["quantity"], changed["replayed"]) == ("done", 5, True), changed


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


@faults(p.pass_on, p.pass_on, p.pass_on, p.reset_after)
def stale_change_is_mended_under_its_intent(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "id": made["id"]}
    first = c.call(**change, if_match=made["etag"], intent="change/1", body={"quantity": 5})
    assert c.call(**change, if_match=made["etag"], intent="change/2", body={"quantity": 6})["code"] == "version-stale"
    mended = c.call(**change, if_match=first["etag"], intent="change/2", body={"quantity": 6})
    assert (mended["result"], mended["quantity"], mended["attempts"], mended["replayed"]) == ("done", 6, 2, True), mended
    assert len([e for e in c.service.events("changed") if e["reference"] == made["id"]]) == 2
    assert len({seen.key for seen in c.proxy.seen if seen.method == "PATCH"}) == 2


@faults(p.pass_on, p.cut_after, p.problem(401, "unauthenticated", "corrected"))
def change_refused_after_an_unknown_attempt_takes_no_other(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "intent": "change/1", "id": made["id"], "if_match": made["etag"]}
    assert c.call(**change, body={"quantity": 5})["result"] == "needs-correction"
    assert c.call(**change, body={"quantity": 6})["result"] == "intent-mismatch"
    changed = c.call(**change, body={"quantity": 5})
    assert (changed["result"], changed["quantity"], changed["replayed"]) == ("done", 5, True), changed
    assert len([e for e in c.service.events("changed") if e["reference"] == made["id"]]) == 1


@faults(p.pass_on, p.then(p.unheard, p.slow_body), p.without("status"), p.text_502_after)
def change_with_answers_that_are_not_the_servers(c: Case) -> None:
    made = c.call()
    change = {"operation": "change", "intent": "change/1", "id": made["id"], "if_match": made["etag"], "body": {"note": None}}
    changed = c.call(**change, attempt_timeout=1)
    assert (changed["result"], changed["attempts"], changed["replayed"]) == ("done", 4, True), changed


@faults(p.pass_on, p.slow_head, p.html_200, p.reset_after, p.interim_for_ever, p.problem(409, "reservation-busy", "same_key", 1))
def cancel_under_faults(c: Case) -> None:
    made = c.call()
    c.check(c.call(operation="cancel", id=made["id"], attempt_timeout=1), "done", asked=7)
    assert len([e for e in c.service.events("cancelled") if e["reference"] == made["id"]]) == 1


@faults(p.pass_on, *[p.interim_for_ever] * 9)
def cancel_ends_in_time(c: Case) -> None:
    made = c.call()
    began = time.monotonic()
    assert c.call(operation="cancel", id=made["id"], deadline=2, attempt_timeout=1)["result"] == "unknown"
    assert time.monotonic() - began < 5


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
