//! A caller that does what `docs/clients.md` says: one key per intent, kept across its own crashes; it decides by `retry`.

use std::time::Duration;

use serde_json::json;

use super::dice::Dice;
use super::ledger::{Intent, Last};
use super::reply::Reply;
use super::wire::{Unframed, Wire};
use super::world::World;

/// How a request ended for its caller.
pub enum End {
    Final(Reply),
    /// Nobody can tell.
    Unknown,
}

/// What there is to do after one answer, or none.
enum Next {
    End(End),
    Again(Duration),
}

/// Means one thing after another until the storm is over; each is pursued to its end.
pub async fn live(world: &World, name: &str) {
    for number in 0..10_000 {
        if world.is_calm() {
            return;
        }
        let mut dice = Dice::of(world.seed, &format!("caller {name} {number}"));
        reserve(world, &mut dice, &format!("{name}-{number}")).await;
        tokio::time::sleep(Duration::from_millis(dice.between(0, 150))).await;
    }
}

/// A reservation, and perhaps changes of it, and perhaps its cancellation.
async fn reserve(world: &World, dice: &mut Dice, name: &str) {
    let forgotten = if world.forgets() { 12 } else { 0 };
    let kinds = [(forgotten, "FORGOTTEN"), (65 - forgotten, "ITEM"), (5, "SOLD-OUT"), (30, "SCARCE")];
    let item = format!("{}-{name}", dice.weighted(&kinds));
    let create = Intent {
        method: "POST",
        target: "/reservations".into(),
        key: Some(new_key()),
        if_match: None,
        body: json!({"item_code": item, "quantity": 1, "reserved_by": "hanako"}).to_string(),
    };
    let End::Final(mut latest) = pursue(world, dice, &create).await else { return };
    if latest.status != 201 {
        return;
    }
    let Some(id) = text(&latest, "id") else {
        return world.ledger.violation(format!("a reservation without an id: {latest:?}"));
    };
    let target = format!("/reservations/{id}");
    let mut last = Last { quantity: 1, cancelled: false };
    for _ in 0..3 {
        if world.is_calm() || !dice.percent(35) {
            break;
        }
        let quantity = i64::try_from(dice.between(2, 14)).unwrap_or_default();
        let change = Intent {
            method: "PATCH",
            target: target.clone(),
            key: Some(new_key()),
            if_match: latest.header("etag").map(str::to_owned),
            body: json!({"quantity": quantity}).to_string(),
        };
        match pursue(world, dice, &change).await {
            End::Final(reply) if reply.status == 200 => {
                last.quantity = quantity;
                latest = reply;
            }
            End::Final(_) => {}
            End::Unknown => return,
        }
    }
    if !world.is_calm() && dice.percent(10) {
        let cancel = Intent { method: "DELETE", target, key: None, if_match: None, body: String::new() };
        match pursue(world, dice, &cancel).await {
            End::Final(reply) => last.cancelled = reply.status == 204,
            End::Unknown => return,
        }
    }
    world.ledger.told_last(id, last);
}

/// The retry loop.
async fn pursue(world: &World, dice: &mut Dice, intent: &Intent) -> End {
    world.ledger.meant(intent);
    let mut pause_ms = 100;
    while world.has_time() {
        let together = if dice.percent(12) { dice.between(2, 3) } else { 1 };
        let mut each: Vec<Dice> = (0..together).map(|n| Dice::of(dice.between(0, u64::MAX - 1), &n.to_string())).collect();
        let replies = futures_util::future::join_all(each.iter_mut().map(|dice| attempt(world, dice, intent))).await;
        let mut wait = Duration::from_millis(dice.between(pause_ms / 2, pause_ms));
        for reply in replies {
            match decide(world, intent, reply) {
                Next::End(end) => return end,
                Next::Again(after) => wait = wait.max(after),
            }
        }
        pause_ms = (2 * pause_ms).min(1600);
        tokio::time::sleep(wait).await;
    }
    world.ledger.violation(format!("a caller that retries as documented got no final answer in time: {intent:?}"));
    End::Unknown
}

fn decide(world: &World, intent: &Intent, reply: Option<Reply>) -> Next {
    let Some(reply) = reply else { return Next::Again(Duration::ZERO) };
    if reply.is_final() || (intent.method == "DELETE" && reply.status == 204) {
        return Next::End(End::Final(reply));
    }
    if reply.status == 202 {
        return Next::Again(Duration::from_secs(1));
    }
    if reply.status == 500 {
        world.ledger.violation(format!("an error that nobody foresaw: {intent:?}: {reply:?}"));
    }
    let after = reply.header("retry-after").and_then(|v| v.parse().ok()).map(Duration::from_secs);
    match (text(&reply, "retry").as_deref(), after) {
        (Some("same_key"), Some(after)) => Next::Again(after),
        // A person is told; where nobody else can ever tell, there is no point in asking on.
        (Some("ask"), None) if world.only_a_person_can_tell() => Next::End(End::Unknown),
        (Some("ask"), Some(after)) => Next::Again(after),
        _ => {
            world.ledger.violation(format!("an answer that no caller can expect: {intent:?}: {reply:?}"));
            Next::End(End::Unknown)
        }
    }
}

/// One request to any of the servers; `None` where the connection or the caller breaks.
async fn attempt(world: &World, dice: &mut Dice, intent: &Intent) -> Option<Reply> {
    let servers: Vec<_> = world.servers().collect();
    let (process, port) = *dice.one_of(&servers);
    // A caller that crashes comes back with the key it has kept.
    let patience_ms = if dice.percent(12) && !world.is_calm() { dice.between(1, 400) } else { 8_000 };
    let prefer = dice.weighted(&[(6, ""), (2, "Prefer: wait=1\r\n"), (1, "Prefer: respond-async\r\n")]);
    let number = (intent.method == "POST").then(|| world.ledger.leaves(process, &item_of(intent)));
    let reply = tokio::time::timeout(Duration::from_millis(patience_ms), exchange(port, intent, prefer)).await;
    let kind = match &reply {
        Ok(Ok(reply)) => match reply.code() {
            Some(code) => format!("{} {code}", reply.status),
            None => reply.status.to_string(),
        },
        Ok(Err(_)) => "none: no connection, or a broken one".into(),
        Err(_) if patience_ms < 8_000 => "none: the caller broke".into(),
        Err(_) => "none: no answer in time".into(),
    };
    world.ledger.count("answers", kind);
    let reply = reply.ok()?.ok()?;
    if let (Some(number), Some("storage-unavailable")) = (&number, reply.code().as_deref()) {
        world.ledger.sent_nothing(number);
    }
    if reply.is_final() {
        world.ledger.told(intent, &reply);
    }
    Some(reply)
}

fn item_of(intent: &Intent) -> String {
    let body: serde_json::Value = serde_json::from_str(&intent.body).unwrap_or_default();
    body["item_code"].as_str().unwrap_or_default().to_owned()
}

/// Sends the request and reads the answer.
pub async fn exchange(port: u16, intent: &Intent, more: &str) -> std::io::Result<Reply> {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{more}", intent.method, intent.target);
    if let Some(key) = &intent.key {
        head += &format!("Idempotency-Key: \"{key}\"\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", intent.body.len());
    }
    if let Some(if_match) = &intent.if_match {
        head += &format!("If-Match: {if_match}\r\n");
    }
    let mut wire = Wire::connect(port).await?;
    wire.write(format!("{head}\r\n{}", intent.body).as_bytes()).await?;
    Ok(Reply::new(wire.read(Unframed::UntilClose).await?))
}

/// A member of the body.
pub fn text(reply: &Reply, member: &str) -> Option<String> {
    serde_json::from_slice::<serde_json::Value>(reply.body()).ok()?[member].as_str().map(str::to_owned)
}

fn new_key() -> String {
    uuid::Uuid::new_v4().to_string()
}
