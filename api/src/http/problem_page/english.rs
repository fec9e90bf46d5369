//! The pages' texts in English.

use super::{Frame, Text};
use crate::http::problem::{Code, Retry};

pub(super) fn frame(retry: Retry) -> Frame {
    Frame {
        retry: "May I retry?",
        advice: match retry {
            Retry::SameKey => {
                "Yes: send the same request again with the same `Idempotency-Key`, if it needs one, not before the seconds in `Retry-After` are over."
            }
            Retry::Corrected => "After correcting it. The key is not spent: the corrected request may use it.",
            Retry::NewKey => "Not with this key: it belongs to another request. A really new request needs a new key.",
            Retry::Never => "No: this answer is final. The same request gets the same answer.",
            Retry::Ask => {
                "Do not make a new key: the booking may exist, and a new key could book twice. Ask about this key, or ask the operator."
            }
        },
        happened: "What happened",
        to_do: "What to do",
        example: "See it",
        all_docs: "API documentation",
        other_language: "\u{65e5}\u{672c}\u{8a9e}",
    }
}

pub(super) fn text(code: Code) -> Text {
    match code {
        Code::KeyMissing => Text {
            happened: "`POST` and `PATCH` need the header `Idempotency-Key`, so that a retry cannot book twice. It was not sent. Nothing was done.",
            to_do: "Make one random key for each new request (a UUID is good), store it, and send it with the request and with every retry.",
        },
        Code::KeyMalformed => Text {
            happened: "The request does not carry exactly one valid key: the header came twice, holds a list, lacks a closing quote, is empty, longer than 255 characters, or not visible ASCII. Nothing was done.",
            to_do: "Send one header line with a string in double quotes: `Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"`. Inside the quotes write `\\\"` and `\\\\` for a quote and a backslash.",
        },
        Code::RequestInvalid => Text {
            happened: "The body, a query parameter or a header is not what the API description asks for. `errors` names each fault with a JSON Pointer. Nothing was done.",
            to_do: "Correct every fault in `errors`. JSON is read strictly: no duplicate or unknown members, and integers without fraction, exponent or quotes.",
        },
        Code::Unauthenticated => Text {
            happened: "The token is missing, unknown or revoked. The key was not looked at.",
            to_do: "Send `Authorization: Bearer TOKEN` with a valid token.",
        },
        Code::Forbidden => Text {
            happened: "The service runs without tokens, and was called under another name than a loopback one: a web page must not reach it under a name of its own.",
            to_do: "Call the service as `127.0.0.1` or `localhost`, or give it a token, and with that any name.",
        },
        Code::NotFound => Text {
            happened: "There is nothing at this address, or it belongs to another account. A reservation whose key was freed is gone, too.",
            to_do: "Check the address. If you were retrying a request, send that request again under its key.",
        },
        Code::MethodNotAllowed => {
            Text { happened: "The address exists but does not offer this method.", to_do: "Use one of the methods in the header `Allow`." }
        }
        Code::RequestTimeout => {
            Text { happened: "The request did not arrive completely in time. Nothing was done.", to_do: "Send it again." }
        }
        Code::TooManyRequests => Text {
            happened: "The account makes more new keys than it may, or the service has more requests under way than it takes. Nothing was done, and the key is untouched. Replays are not counted.",
            to_do: "Wait for `Retry-After`, then send it again under the same key.",
        },
        Code::KeyInProgress => Text {
            happened: "A request with this key is being worked on. It goes on even if its caller has gone.",
            to_do: "Wait for `Retry-After` and send it again; you get the one answer. With `Prefer: wait=10` the service waits for you.",
        },
        Code::ReservationBusy => Text {
            happened: "The reservation is still being made, or another change of it is not settled yet. This change was not begun.",
            to_do: "Wait for `Retry-After`, read the reservation again, and send the change again.",
        },
        Code::OutcomeUnknown => Text {
            happened: "The booking system was asked but nobody can tell yet whether it booked. Nothing is sent twice, so the service waits until it can find out.",
            to_do: "Keep this key and never replace it by a new one. If the answer has `Retry-After`, the service will look again: ask later under the same key. If it has none, an operator must settle it.",
        },
        Code::VersionStale => Text {
            happened: "The reservation has changed since you read it: `If-Match` does not name its current `ETag`. Nothing was changed.",
            to_do: "Read the reservation, decide again, and send the change with its new `ETag`. If your tag begins with `W/`, a proxy has weakened it: send it without `W/`.",
        },
        Code::IfMatchMissing => Text {
            happened: "A change must say which version it changes, so that it cannot overwrite somebody else's. `If-Match` was not sent.",
            to_do: "Read the reservation and send its `ETag` in `If-Match`.",
        },
        Code::BodyTooLarge => Text {
            happened: "The body is larger than this service takes. Nothing was done.",
            to_do: "Send a smaller body; a note has at most 1000 characters.",
        },
        Code::MediaTypeUnsupported => Text {
            happened: "The body is not declared as JSON in UTF-8, or it is compressed. Nothing was done.",
            to_do: "Send `Content-Type: application/json` and no `Content-Encoding`.",
        },
        Code::KeyReused => Text {
            happened: "The key was used before for a request with another content, or for another reservation. `mismatch` names the members that differ; it is empty where only the reservation does. Nothing was done.",
            to_do: "To retry, send exactly the first request. For a new request make a new key.",
        },
        Code::BookingRejected => Text {
            happened: "The booking system refused, for example because it is sold out; or the reservation is in a state that cannot be changed. A refusal of the booking system to a `POST` or `PATCH` is kept under the key.",
            to_do: "Retrying cannot help. Decide anew; another request needs another key.",
        },
        Code::Internal => Text {
            happened: "The service failed. Whether anything was booked is kept under the key.",
            to_do: "Send it again under the same key. If it stays, tell the operator.",
        },
        Code::BookingSystemMisconfigured => Text {
            happened: "The booking system does not accept our service itself (401, 403, 404 or 405). Nothing was booked, and the key is free again.",
            to_do: "The operator must correct the settings. Then send it again under the same key.",
        },
        Code::BookingSystemUnavailable => Text {
            happened: "No connection to the booking system came about. Nothing was booked, and the key is free again.",
            to_do: "Wait for `Retry-After`, then send it again under the same key.",
        },
        Code::BookingSystemBusy => Text {
            happened: "The booking system takes no more requests for now. Nothing was booked, and the key is free again.",
            to_do: "Wait for `Retry-After`, which comes from the booking system, then send it again under the same key.",
        },
        Code::OutcomePending => Text {
            happened: "The request was sent to the booking system but its outcome was not known in time. It may have been booked. The service goes on finding out.",
            to_do: "Wait for `Retry-After` and send it again under the same key; you get the one answer as soon as it is known. Never make a new key.",
        },
        Code::StorageUnavailable => Text {
            happened: "The database cannot be reached. Without it nothing is sent to the booking system.",
            to_do: "Wait for `Retry-After`, then send it again under the same key.",
        },
    }
}
