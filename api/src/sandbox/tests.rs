//! The sandbox over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

struct Sandbox {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<io::Result<()>>,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        assert!(self.head.contains("application/json"), "{}", self.head);
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Sandbox {
    async fn start(storage: Storage) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(listener, storage, shutdown.clone()));
        Self { address, shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        timeout(Duration::from_secs(3), self.task).await.unwrap().unwrap().unwrap();
    }

    /// Everything the server sends until it closes.
    async fn raw(&self, head: &str, body: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!("{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        let _ = stream.read_to_end(&mut seen).await;
        seen
    }

    async fn call(&self, head: &str, body: &str) -> Answer {
        let seen = self.raw(head, body).await;
        let end = seen.windows(4).position(|part| part == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8(seen[..end].to_vec()).unwrap();
        Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body: seen[end + 4..].to_vec() }
    }

    async fn post(&self, reference: &str, item: &str) -> Answer {
        self.call(&post_head(reference), &body(reference, item)).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call(&format!("GET {path} HTTP/1.1"), "").await
    }

    async fn patch(&self, reference: &str, key: &str, values: &Value) -> Answer {
        let head = format!("PATCH /bookings/{reference} HTTP/1.1\r\nContent-Type: application/json\r\nIdempotency-Key: \"{key}\"");
        self.call(&head, &values.to_string()).await
    }
}

fn post_head(key: &str) -> String {
    format!("POST /bookings HTTP/1.1\r\nContent-Type: application/json\r\nIdempotency-Key: \"{key}\"")
}

fn body(reference: &str, item: &str) -> String {
    json!({"reference": reference, "item_code": item, "quantity": 2, "reserved_by": "Mika", "starts_at": null, "ends_at": null, "note": "<b>"})
        .to_string()
}

#[tokio::test]
async fn one_key_makes_one_booking() {
    let sandbox = Sandbox::start(Storage::Memory).await;
    let first = sandbox.post("r1", "ROOM").await;
    assert_eq!(first.status, 201);
    let booking = first.json();
    assert!(booking["booking_id"].as_str().unwrap().starts_with("BK-"));
    assert_eq!((&booking["reference"], &booking["quantity"], &booking["starts_at"]), (&json!("r1"), &json!(2), &Value::Null));
    let again = sandbox.post("r1", "ROOM").await;
    assert_eq!((again.status, again.json()), (200, booking.clone()));
    let found = sandbox.get("/bookings/r1").await;
    assert_eq!((found.status, found.json()), (200, booking));
    let other = sandbox.call(&post_head("another-key"), &body("r1", "ROOM")).await;
    assert_eq!(other.status, 409);
    assert_eq!(sandbox.get("/bookings").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_change_counts_once_a_key_and_a_cancelled_booking_is_gone() {
    let sandbox = Sandbox::start(Storage::Memory).await;
    sandbox.post("r1", "ROOM").await;
    let first = sandbox.patch("r1", "k1", &json!({"quantity": 3, "note": "a"})).await;
    assert_eq!((first.status, &first.json()["quantity"]), (200, &json!(3)));
    let second = sandbox.patch("r1", "k2", &json!({"quantity": 4})).await.json();
    assert_eq!((&second["quantity"], &second["note"]), (&json!(4), &Value::Null));
    assert_eq!(sandbox.patch("r1", "k1", &json!({"quantity": 3, "note": "a"})).await.json(), first.json());
    assert_eq!(sandbox.get("/bookings/r1").await.json(), second);

    for status in [200, 404] {
        assert_eq!(sandbox.call("DELETE /bookings/r1 HTTP/1.1", "").await.status, status);
    }
    let gone = sandbox.get("/bookings/r1").await;
    assert_eq!((gone.status, gone.json()["error"].is_string()), (404, true));
    assert_eq!(sandbox.patch("r1", "k3", &json!({"quantity": 5})).await.status, 404);
    assert_eq!(sandbox.get("/bookings").await.json()["items"][0]["cancelled"], true);
}

#[tokio::test]
async fn misbehaves_by_item_code_each_time_and_lets_the_look_up_tell() {
    let sandbox = Sandbox::start(Storage::Memory).await;
    assert_eq!(sandbox.post("sold-out", "SOLD-OUT").await.status, 409);
    let busy = sandbox.post("busy", "BUSY").await;
    assert_eq!(busy.status, 429);
    assert!(busy.head.to_lowercase().contains("retry-after: 2"), "{}", busy.head);
    for reference in ["sold-out", "busy"] {
        assert_eq!(sandbox.get(&format!("/bookings/{reference}")).await.status, 404);
    }

    for _ in 0..2 {
        let error = sandbox.post("error", "ERROR").await;
        assert_eq!((error.status, error.json()["error"].is_string()), (500, true));
        let garbage = sandbox.post("garbage", "GARBAGE").await;
        assert_eq!(garbage.status, 201);
        assert!(serde_json::from_slice::<Value>(&garbage.body).is_err());
        let dropped = timeout(Duration::from_secs(3), sandbox.raw(&post_head("drop"), &body("drop", "DROP"))).await;
        assert_eq!(dropped.unwrap(), b"");
        let silent = timeout(Duration::from_millis(300), sandbox.raw(&post_head("timeout"), &body("timeout", "TIMEOUT"))).await;
        assert!(silent.is_err());
    }
    for reference in ["error", "garbage", "drop", "timeout"] {
        assert_eq!(sandbox.get(&format!("/bookings/{reference}")).await.status, 200, "{reference}");
    }
    assert_eq!(sandbox.get("/bookings").await.json()["items"].as_array().unwrap().len(), 4);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_slow_booking_is_made_although_its_caller_has_gone() {
    let sandbox = Sandbox::start(Storage::Memory).await;
    let started = Instant::now();
    let gone = timeout(Duration::from_millis(200), sandbox.raw(&post_head("slow"), &body("slow", "SLOW-1"))).await;
    assert!(gone.is_err());
    assert_eq!(sandbox.get("/bookings/slow").await.status, 404);
    let answer = sandbox.post("slow", "SLOW-1").await;
    assert!(matches!(answer.status, 200 | 201) && started.elapsed() >= Duration::from_secs(1));
    assert_eq!(sandbox.get("/bookings/slow").await.json(), answer.json());
    let asked_again = Instant::now();
    assert_eq!(sandbox.post("slow", "SLOW-1").await.status, 200);
    assert!(asked_again.elapsed() < Duration::from_millis(900));
}

#[tokio::test]
async fn errors_are_json() {
    let sandbox = Sandbox::start(Storage::Memory).await;
    let json_post = "POST /bookings HTTP/1.1\r\nContent-Type: application/json";
    let keyed = post_head("r");
    let faulty = json!({"reference": "r", "item_code": "", "quantity": 1, "reserved_by": "M"}).to_string();
    let backwards = json!({"reference": "r", "item_code": "I", "quantity": 1, "reserved_by": "M",
        "starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-02T01:00:00+02:00"})
    .to_string();
    let large = body("r", &"x".repeat(70_000));
    for (head, body, status) in [
        ("GET /nowhere HTTP/1.1", "", 404),
        ("PUT /bookings HTTP/1.1", "", 405),
        (json_post, &body("r", "ROOM"), 400),
        (&format!("{json_post}\r\nIdempotency-Key: bare"), &body("r", "ROOM"), 400),
        (&keyed, "{", 400),
        (&keyed, &faulty, 400),
        (&keyed, &backwards, 400),
        (&keyed, &large, 413),
        ("POST /bookings HTTP/1.1\r\nContent-Type: text/plain\r\nIdempotency-Key: \"r\"", &body("r", "ROOM"), 415),
    ] {
        let answer = sandbox.call(head, body).await;
        assert_eq!(answer.status, status, "{head}");
        assert!(answer.json()["error"].is_string(), "{head}");
    }
    assert_eq!(sandbox.get("/bookings").await.json(), json!({"items": []}));
}

#[tokio::test]
async fn the_page_and_the_documents_are_there() {
    let sandbox = Sandbox::start(Storage::Memory).await;
    sandbox.post("r1", "ROOM").await;
    let page = String::from_utf8(sandbox.get("/").await.body).unwrap();
    assert!(page.contains("SLOW-n") && page.contains("openapi.yaml") && page.contains("&lt;b&gt;") && !page.contains("<b>"));
    let json = sandbox.get("/openapi.json").await.json();
    assert_eq!(json["openapi"], "3.0.3");
    let yaml = String::from_utf8(sandbox.get("/openapi.yaml").await.body).unwrap();
    assert!(yaml.contains("paths:\n  /bookings:\n    get:\n      operationId: \"listBookings\"\n"), "{yaml}");
}

fn storage_in(folder: &tempfile::TempDir) -> (Storage, PathBuf) {
    let path = folder.path().join("a folder").join("x.sandbox.jsonl");
    (Storage::File(path.clone()), path)
}

#[tokio::test]
async fn a_restart_forgets_nothing_and_two_processes_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, _) = storage_in(&folder);
    let one = Sandbox::start(storage.clone()).await;
    let booking = one.post("r1", "ROOM").await.json();
    one.patch("r1", "k1", &json!({"quantity": 7})).await;
    let two = Sandbox::start(storage.clone()).await;
    let seen = two.post("r1", "ROOM").await;
    assert_eq!((seen.status, &seen.json()["booking_id"], &seen.json()["quantity"]), (200, &booking["booking_id"], &json!(7)));
    let (left, right) = tokio::join!(one.post("r2", "ROOM"), two.post("r2", "ROOM"));
    assert_eq!(left.json(), right.json());
    assert_eq!(left.status + right.status, 401);
    two.call("DELETE /bookings/r1 HTTP/1.1", "").await;
    assert_eq!(one.get("/bookings/r1").await.status, 404);
    one.stop().await;
    two.stop().await;
    let three = Sandbox::start(storage).await;
    assert_eq!(three.get("/bookings/r1").await.status, 404);
    assert_eq!(three.get("/bookings/r2").await.json(), left.json());
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, path) = storage_in(&folder);
    let sandbox = Sandbox::start(storage.clone()).await;
    sandbox.post("r1", "ROOM").await;
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();
    assert_eq!(sandbox.post("r2", "ROOM").await.status, 201);
    sandbox.stop().await;
    let sandbox = Sandbox::start(storage).await;
    for reference in ["r1", "r2"] {
        assert_eq!(sandbox.get(&format!("/bookings/{reference}")).await.status, 200);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(sandbox.get("/bookings/r1").await.status, 404);
}

#[test]
fn the_file_lies_beside_the_database() {
    let file = |path: &str| Storage::File(Path::new(path).to_owned());
    for (url, storage) in [
        ("sqlite://data/reservations.db?mode=rwc", file("data/reservations.sandbox.jsonl")),
        ("sqlite:///var/lib/r", file("/var/lib/r.sandbox.jsonl")),
        ("sqlite:a%20b.db", file("a b.sandbox.jsonl")),
        ("sqlite::memory:", Storage::Memory),
        ("sqlite://:memory:", Storage::Memory),
        ("sqlite://x?mode=memory&cache=shared", Storage::Memory),
        ("postgres://localhost/r", Storage::Memory),
    ] {
        assert_eq!(file_beside(url), storage, "{url}");
    }
}
