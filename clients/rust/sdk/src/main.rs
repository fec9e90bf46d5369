//! The SDK that progenitor generates, used against the server; the first argument is its address, the second a token.

use futures_util::StreamExt as _;
use reqwest::header;
use reservation_sdk::types::{self, Problem, RetryAdvice};
use reservation_sdk::{ByteStream, Client, Error, ResponseValue};

/// An error answer as the SDK gives it: status and headers always, a problem where the body is one.
struct Failed {
    status: u16,
    retry_after: Option<u64>,
    problem: Option<Problem>,
}

/// progenitor types `application/json` only and hands every other body over as bytes, so a gateway's text breaks nothing.
async fn failed<T>(result: Result<ResponseValue<T>, Error<ByteStream>>) -> Failed {
    let Err(Error::ErrorResponse(answer)) = result else { panic!("not an error answer") };
    let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let status = answer.status().as_u16();
    let mut body = answer.into_inner();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.expect("the body ended early"));
    }
    Failed { status, retry_after, problem: serde_json::from_slice(&bytes).ok() }
}

type Created = Result<ResponseValue<types::Reservation>, Error<ByteStream>>;

async fn create(client: &Client, key: &str, item: &str, quantity: i64, note: &str, prefer: &str) -> Created {
    let body = serde_json::json!({"item_code": item, "quantity": quantity, "reserved_by": "rust", "note": note});
    let body: types::CreateReservation = serde_json::from_value(body).expect("a request as the document has it");
    client.create_reservation().idempotency_key(format!("\"{key}\"")).prefer(prefer).body(body).send().await
}

fn text<T>(answer: &ResponseValue<T>, name: &str) -> String {
    answer.headers().get(name).map(|value| value.to_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (url, token) = (arguments.next().expect("the server's address"), arguments.next().expect("a token"));
    let authorization = header::HeaderValue::try_from(format!("Bearer {token}")).expect("a token");
    let headers = header::HeaderMap::from_iter([(header::AUTHORIZATION, authorization)]);
    let http = reqwest::Client::builder().default_headers(headers).build().expect("an HTTP client");
    let client = &Client::new_with_client(&url, http);
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970").as_nanos();
    let key = |name: &str| format!("rust-{started}-{name}");

    let policy = client.get_idempotency_policy().send().await.expect("policy");
    assert!(policy.retention_ms > 0);

    let made = create(client, &key("1"), "ROOM", 1, "", "wait=20").await.expect("create");
    assert_eq!((made.status().as_u16(), made.status), (201, types::ReservationStatus::Confirmed));
    let id = made.id.to_string();
    assert!(text(&made, "location").ends_with(&id));

    let again = create(client, &key("1"), "ROOM", 1, "", "wait=20").await.expect("replay");
    assert_eq!((again.id.to_string(), text(&again, "idempotent-replayed").as_str()), (id.clone(), "true"));

    let accepted = create(client, &key("2"), "SLOW-3", 1, "", "respond-async").await.expect("respond-async");
    assert_eq!(accepted.status().as_u16(), 202);
    let running = failed(create(client, &key("2"), "SLOW-3", 1, "", "wait=0").await).await;
    let problem = running.problem.expect("a problem");
    assert_eq!((running.status, problem.code, problem.retry), (409, types::ProblemCode::KeyInProgress, RetryAdvice::SameKey));
    assert!(running.retry_after >= Some(1));

    let other = failed(create(client, &key("1"), "ROOM", 2, "", "wait=20").await).await;
    let problem = other.problem.expect("a problem");
    assert_eq!((other.status, problem.retry, problem.mismatch), (422, RetryAdvice::NewKey, vec!["/quantity".to_owned()]));

    // A quantity of 0 cannot even be built with the generated types.
    let invalid = failed(create(client, "", "ROOM", 1, "", "wait=20").await).await;
    assert_eq!((invalid.status, invalid.problem.map(|problem| problem.code)), (400, Some(types::ProblemCode::KeyMalformed)));

    let busy = failed(create(client, &key("3"), "ROOM", 1, "proxy: 503 once", "wait=20").await).await;
    assert_eq!((busy.status, busy.retry_after, busy.problem.map(|problem| problem.retry)), (503, Some(1), Some(RetryAdvice::SameKey)));
    assert_eq!(create(client, &key("3"), "ROOM", 1, "proxy: 503 once", "wait=20").await.expect("then success").status().as_u16(), 201);

    // B67: the key is made before the first attempt, whose answer is cut; the second is told what the first one did.
    let mut cut = create(client, &key("6"), "ROOM", 1, "proxy: cut once", "wait=20").await;
    assert!(matches!(cut, Err(Error::CommunicationError(_))));
    cut = create(client, &key("6"), "ROOM", 1, "proxy: cut once", "wait=20").await;
    assert_eq!(text(&cut.expect("the second attempt"), "idempotent-replayed"), "true");

    let gateway = failed(create(client, &key("4"), "ROOM", 1, "proxy: text 502", "wait=20").await).await;
    assert_eq!((gateway.status, gateway.problem.is_none()), (502, true));

    let read = client.get_reservation().id(&id).send().await.expect("get");
    assert_eq!(read.id.to_string(), id);
    let change: types::ChangeReservation = serde_json::from_value(serde_json::json!({"quantity": 3})).expect("a change");
    let changing = client.change_reservation().id(&id).idempotency_key(format!("\"{}\"", key("5")));
    let changed = changing.if_match(text(&made, "etag")).body(change).send().await.expect("change");
    assert_eq!(i64::from(changed.quantity), 3);
    let page = client.list_reservations().limit(100).send().await.expect("list");
    assert!(page.items.iter().any(|item| item.id.to_string() == id));
    let state = client.get_idempotency_key().key(key("1")).send().await.expect("key");
    assert_eq!(state.state, types::KeyState::Completed);
    assert_eq!(client.cancel_reservation().id(&id).send().await.expect("cancel").status().as_u16(), 204);
}
