//! A command for each page that shows the problem, or how to get on from it, at a service on its default address.

use crate::http::problem::Code;

const CREATE: &str = r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"' \
  -d '{"item_code":"ROOM-101","quantity":1,"reserved_by":"Hanako Yamada"}'"#;

pub(super) fn curl(code: Code) -> &'static str {
    match code {
        Code::KeyMissing => {
            r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -d '{"item_code":"ROOM-101","quantity":1,"reserved_by":"Hanako Yamada"}'"#
        }
        Code::KeyMalformed => {
            r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "no closing quote' \
  -d '{"item_code":"ROOM-101","quantity":1,"reserved_by":"Hanako Yamada"}'"#
        }
        Code::RequestInvalid => {
            r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"' \
  -d '{"item_code":"ROOM-101","quantity":1.0}'"#
        }
        Code::Unauthenticated => "curl -i http://127.0.0.1:8000/reservations -H 'Authorization: Bearer wrong'",
        Code::Forbidden => "curl -i http://127.0.0.1:8000/reservations -H 'Host: example.com'",
        Code::NotFound => "curl -i http://127.0.0.1:8000/reservations/nothing-here",
        Code::MethodNotAllowed => "curl -i -X PUT http://127.0.0.1:8000/reservations",
        Code::RequestTimeout => {
            r#"(printf '{'; sleep 15) | curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"' -X POST -T -"#
        }
        Code::KeyInProgress => {
            r#"for i in 1 2; do curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "two-at-once"' -d '{"item_code":"SLOW-5","quantity":1,"reserved_by":"Hanako Yamada"}' & done; wait"#
        }
        Code::ReservationBusy => {
            r#"# while a change of the reservation is under way
curl -i -X DELETE http://127.0.0.1:8000/reservations/$ID"#
        }
        Code::OutcomeUnknown => {
            "curl -i 'http://127.0.0.1:8000/idempotency-keys/8e03978e-40d5-43e8-bc93-6894a57f9324?operation=createReservation'"
        }
        Code::VersionStale => {
            r#"curl -i -X PATCH http://127.0.0.1:8000/reservations/$ID -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "a-change"' -H 'If-Match: "an-old-one"' -d '{"quantity":2}'"#
        }
        Code::IfMatchMissing => {
            r#"curl -i -X PATCH http://127.0.0.1:8000/reservations/$ID -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "a-change"' -d '{"quantity":2}'"#
        }
        Code::BodyTooLarge => {
            r#"head -c 100000 /dev/zero | curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"' --data-binary @-"#
        }
        Code::MediaTypeUnsupported => {
            r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: text/plain' \
  -H 'Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"' -d '{}'"#
        }
        Code::KeyReused => {
            r#"for n in 1 2; do curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "one-key"' -d '{"item_code":"ROOM-101","quantity":'$n',"reserved_by":"Hanako Yamada"}'; done"#
        }
        Code::BookingRejected => {
            r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "sold-out"' -d '{"item_code":"SOLD-OUT","quantity":1,"reserved_by":"Hanako Yamada"}'"#
        }
        Code::BookingSystemBusy => {
            r#"curl -i http://127.0.0.1:8000/reservations -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "busy"' -d '{"item_code":"BUSY","quantity":1,"reserved_by":"Hanako Yamada"}'"#
        }
        Code::TooManyRequests
        | Code::Internal
        | Code::BookingSystemMisconfigured
        | Code::BookingSystemUnavailable
        | Code::OutcomePending
        | Code::StorageUnavailable => CREATE,
    }
}
