//! The booking system: it books, and misbehaves as the dice of each request say. It keeps what it promises in its mode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::behaviour::{Behaviour, Effect, Says};
use super::dice::Dice;
use super::ledger::Ledger;
use super::wire::{Message, Unframed, Wire};

/// What it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// A second POST, PATCH or DELETE under one key changes nothing.
    pub deduplicates: bool,
    /// A look-up tells the truth; without that it denies everything.
    pub looks_up: bool,
}

/// A booking that really exists there.
#[derive(Clone, Debug)]
pub struct Booking {
    pub booking_id: String,
    pub reference: String,
    pub item_code: String,
    pub details: Value,
    pub cancelled: bool,
    key: String,
}

#[derive(Default)]
struct Memory {
    bookings: Vec<Booking>,
    /// Keys of changes that took effect.
    changed: BTreeSet<String>,
    /// How often each thing was asked for.
    asked: BTreeMap<String, u64>,
}

/// The booking system. Clones are the same one.
#[derive(Clone)]
pub struct BookingSystem(Arc<Inner>);

struct Inner {
    address: String,
    mode: Mode,
    seed: u64,
    ledger: Arc<Ledger>,
    memory: Mutex<Memory>,
    /// It behaves.
    calm: AtomicBool,
    /// Effects that are still to come.
    coming: AtomicUsize,
}

/// A request that arrived.
struct Asked {
    method: String,
    /// The last part of the path.
    reference: String,
    key: String,
    body: Value,
}

impl Asked {
    fn new(message: &Message) -> Self {
        let mut words = message.start_line.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let reference = words.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
        let key = message.header("idempotency-key").unwrap_or_default().to_owned();
        Self { method, reference, key, body: serde_json::from_slice(&message.body).unwrap_or_default() }
    }

    fn text(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().to_owned()
    }

    /// Never done, however often it is asked for.
    fn is_refused(&self) -> bool {
        match self.method.as_str() {
            "POST" => self.text("item_code").starts_with("SOLD-OUT"),
            "PATCH" => self.body["quantity"] == 13,
            _ => false,
        }
    }
}

impl BookingSystem {
    pub async fn start(mode: Mode, seed: u64, ledger: Arc<Ledger>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let inner =
            Inner { address, mode, seed, ledger, memory: Mutex::default(), calm: AtomicBool::default(), coming: AtomicUsize::default() };
        let system = Self(Arc::new(inner));
        let serving = system.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = serving.clone();
                tokio::spawn(async move { served.serve(Wire::new(stream)).await });
            }
        });
        system
    }

    pub fn address(&self) -> String {
        self.0.address.clone()
    }

    /// From here on it answers everything at once.
    pub fn calm_down(&self) {
        self.0.calm.store(true, Ordering::SeqCst);
    }

    pub fn bookings(&self) -> Vec<Booking> {
        self.memory().bookings.clone()
    }

    /// Whether something it was asked for may still take effect.
    pub fn has_more_to_come(&self) -> bool {
        self.0.coming.load(Ordering::SeqCst) > 0
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap()
    }

    async fn serve(&self, mut wire: Wire) {
        while let Ok(message) = wire.read(Unframed::Empty).await {
            let asked = Asked::new(&message);
            let behaviour = self.behaviour(&asked);
            self.0.ledger.count("booking system", format!("{} {}", asked.method, behaviour.name));
            if !self.play(&mut wire, &asked, behaviour).await.unwrap_or(false) {
                return;
            }
        }
    }

    /// By what is asked for and how often it was, not by when: so a seed means the same on a slow machine.
    fn behaviour(&self, asked: &Asked) -> Behaviour {
        let what = match asked.method.as_str() {
            "POST" => format!("POST {}", asked.text("item_code")),
            // References are new on every run; bookings of one item are not.
            method => {
                let memory = self.memory();
                let item = memory.bookings.iter().find(|b| b.reference == asked.reference).map(|b| b.item_code.clone());
                format!("{method} {}", item.unwrap_or_default())
            }
        };
        let times = {
            let mut memory = self.memory();
            let times = memory.asked.entry(what.clone()).or_default();
            *times += 1;
            *times
        };
        if self.0.calm.load(Ordering::SeqCst) {
            return Behaviour::GOOD;
        }
        Behaviour::roll(&mut Dice::of(self.0.seed, &format!("{what} {times}")), &asked.method)
    }

    /// Whether the connection goes on afterwards.
    async fn play(&self, wire: &mut Wire, asked: &Asked, behaviour: Behaviour) -> std::io::Result<bool> {
        // A look-up tells what is there when it arrives, however late its answer leaves.
        let mut truth = self.truth(asked);
        tokio::time::sleep(Duration::from_millis(behaviour.wait_ms)).await;
        if asked.method != "GET" && !asked.is_refused() {
            match behaviour.effect {
                Effect::Now => truth = self.carry_out(asked),
                Effect::Late(ms) => self.carry_out_later(asked, ms),
                Effect::None => {}
            }
        }
        let body = truth.1.to_string().into_bytes();
        let (status, media_type, more, body) = match behaviour.says {
            Says::TheTruth => (truth.0, "application/json", "", body),
            Says::Half => {
                let promised = head(truth.0, "application/json", "", body.len());
                wire.write(&[promised, body[..body.len() / 2].to_vec()].concat()).await?;
                return Ok(false);
            }
            Says::Garbage => (200, "application/json", "", b"{\"booking_id\": \xff".to_vec()),
            Says::Status(status) => (status, "application/json", "Retry-After: 1\r\n", b"{\"error\": \"chaos\"}".to_vec()),
            Says::Page(status) => (status, "text/html", "", b"<html>gateway</html>".to_vec()),
            Says::Nothing => {
                // Longer than anybody waits, but not for ever: the wire is to be given back.
                tokio::time::sleep(Duration::from_secs(5)).await;
                return Ok(false);
            }
            Says::Goodbye => return Ok(false),
            Says::Reset => {
                let _ = wire.stream.set_zero_linger();
                return Ok(false);
            }
        };
        wire.write(&[head(status, media_type, more, body.len()), body].concat()).await?;
        Ok(true)
    }

    fn carry_out_later(&self, asked: &Asked, ms: u64) {
        self.0.coming.fetch_add(1, Ordering::SeqCst);
        let (system, method) = (self.clone(), asked.method.clone());
        let asked = Asked { method, reference: asked.reference.clone(), key: asked.key.clone(), body: asked.body.clone() };
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            system.carry_out(&asked);
            system.0.coming.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// What there is to say before anything is done.
    fn truth(&self, asked: &Asked) -> (u16, Value) {
        if asked.is_refused() {
            return (409, json!({"error": "sold out"}));
        }
        let memory = self.memory();
        let found = memory.bookings.iter().find(|b| b.reference == asked.reference && !b.cancelled);
        match found.filter(|_| self.0.mode.looks_up || asked.method != "GET") {
            Some(booking) => (200, shown(booking)),
            None => (404, json!({"error": "no such booking"})),
        }
    }

    /// Does as asked; what there is to say then.
    fn carry_out(&self, asked: &Asked) -> (u16, Value) {
        let mut memory = self.memory();
        if asked.method == "POST" {
            return self.book(&mut memory, asked);
        }
        let repeated = !memory.changed.insert(asked.key.clone()) && self.0.mode.deduplicates;
        let Some(booking) = memory.bookings.iter_mut().find(|b| b.reference == asked.reference) else {
            return (404, json!({"error": "no such booking"}));
        };
        match asked.method.as_str() {
            "DELETE" => booking.cancelled = true,
            _ if booking.cancelled => return (404, json!({"error": "no such booking"})),
            _ if repeated => {}
            _ => ["quantity", "note"].iter().for_each(|name| booking.details[*name] = asked.body[*name].clone()),
        }
        (200, shown(booking))
    }

    fn book(&self, memory: &mut Memory, asked: &Asked) -> (u16, Value) {
        if let Some(earlier) = memory.bookings.iter().find(|b| self.0.mode.deduplicates && b.key == asked.key) {
            return (200, shown(earlier));
        }
        let booking = Booking {
            booking_id: format!("BK-{}", uuid::Uuid::new_v4().simple()),
            reference: asked.text("reference"),
            item_code: asked.text("item_code"),
            details: asked.body.clone(),
            cancelled: false,
            key: asked.key.clone(),
        };
        // Each item belongs to one key.
        if let Some(earlier) = memory.bookings.iter().find(|b| b.item_code == booking.item_code) {
            let (item, first, second) = (&booking.item_code, &earlier.reference, &booking.reference);
            self.0.ledger.violation(format!("a second booking for one key: {item} under {first}, then under {second}"));
        }
        memory.bookings.push(booking.clone());
        (201, shown(&booking))
    }
}

fn shown(booking: &Booking) -> Value {
    let mut shown = booking.details.clone();
    shown["booking_id"] = json!(booking.booking_id);
    shown["reference"] = json!(booking.reference);
    shown
}

fn head(status: u16, media_type: &str, more: &str, length: usize) -> Vec<u8> {
    format!("HTTP/1.1 {status} Chaos\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{more}\r\n").into_bytes()
}
