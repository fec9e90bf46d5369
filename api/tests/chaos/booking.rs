//! The booking system: it books, and misbehaves as the dice of each request say. It keeps what it promises in its mode.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;

use super::asked::Asked;
use super::behaviour::{Behaviour, Effect, Says};
use super::bookings::{Booking, Memory, Said};
use super::database::Database;
use super::dice::Dice;
use super::forgotten;
use super::lease;
use super::ledger::Ledger;
use super::sends::Sent;
use super::traps::{Traps, When};
use super::wire::{Unframed, Wire};

/// What it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// A second POST, PATCH or DELETE under one key changes nothing.
    pub deduplicates: bool,
    /// A look-up tells the truth; without that it denies everything.
    pub looks_up: bool,
    /// It promises to recognise a key for `settings::REMEMBERED_MS` only.
    pub forgets: bool,
}

/// The booking system. Clones are the same one.
#[derive(Clone)]
pub struct BookingSystem(Arc<Inner>);

struct Inner {
    mode: Mode,
    seed: u64,
    ledger: Arc<Ledger>,
    memory: Mutex<Memory>,
    /// It behaves.
    calm: AtomicBool,
    /// Changes whose effect is still to come.
    coming: AtomicUsize,
    traps: Traps,
    database: Arc<Database>,
}

impl BookingSystem {
    pub fn new(mode: Mode, seed: u64, ledger: Arc<Ledger>, database: Arc<Database>) -> Self {
        let (memory, calm, coming, traps) = (Mutex::default(), AtomicBool::default(), AtomicUsize::default(), Traps::default());
        Self(Arc::new(Inner { mode, seed, ledger, memory, calm, coming, traps, database }))
    }

    /// Moments to wait for.
    pub fn traps(&self) -> &Traps {
        &self.0.traps
    }

    /// Listens for one process, so that it knows who sends what; the address.
    pub async fn listen(&self, process: &str) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (serving, process) = (self.clone(), process.to_owned());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (served, process) = (serving.clone(), process.clone());
                tokio::spawn(async move { served.serve(Wire::new(stream), &process).await });
            }
        });
        address
    }

    /// From here on it answers everything at once.
    pub fn calm_down(&self) {
        self.0.calm.store(true, Ordering::SeqCst);
    }

    pub fn bookings(&self) -> Vec<Booking> {
        self.memory().bookings.clone()
    }

    /// Bookings under this reference are not done, and nobody can tell, until it is called again.
    pub fn be_out_of_order(&self, reference: &str, out: bool) {
        let mut memory = self.memory();
        if out {
            memory.out_of_order.insert(reference.to_owned());
        } else {
            memory.out_of_order.remove(reference);
        }
    }

    /// Look-ups of this reference meet a gateway's page, until it is called again.
    pub fn be_behind_gateway(&self, reference: &str, behind: bool) {
        let mut memory = self.memory();
        if behind {
            memory.behind_gateway.insert(reference.to_owned());
        } else {
            memory.behind_gateway.remove(reference);
        }
    }

    /// Whether something it was asked for may still take effect.
    pub fn has_more_to_come(&self) -> bool {
        self.0.coming.load(Ordering::SeqCst) > 0 || self.memory().sends.has_more_to_come()
    }

    /// Every POST that arrived.
    pub fn sends(&self) -> Vec<Sent> {
        self.memory().sends.all().cloned().collect()
    }

    /// The one send of this reference; none where there were several.
    pub fn only_send(&self, reference: &str) -> Option<Sent> {
        self.memory().sends.only_one(reference)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap()
    }

    async fn serve(&self, mut wire: Wire, process: &str) {
        while let Ok(message) = wire.read(Unframed::Empty).await {
            let asked = Asked::new(&message);
            let behaviour = self.behaviour(&asked);
            self.0.ledger.count("booking system", format!("{} {}", asked.method, behaviour.name));
            if !self.play(&mut wire, &asked, behaviour, process).await.unwrap_or(false) {
                return;
            }
        }
    }

    /// By what is asked for and how often it was, not by when: so a seed means the same on a slow machine.
    fn behaviour(&self, asked: &Asked) -> Behaviour {
        let (what, times) = self.memory().nth(asked);
        // Goes on into the calm: it ends by itself.
        if asked.method == "GET" && self.memory().behind_gateway.contains(&asked.reference) {
            return Behaviour::BEHIND_GATEWAY;
        }
        if self.0.calm.load(Ordering::SeqCst) {
            return Behaviour::GOOD;
        }
        let stays_unknown = |memory: &Memory| asked.is_to_be_forgotten() && !memory.forgotten.contains(&asked.text("reference"));
        if asked.method == "POST" && (self.memory().out_of_order.contains(&asked.text("reference")) || stays_unknown(&self.memory())) {
            return Behaviour::OUT_OF_ORDER;
        }
        Behaviour::roll(&mut Dice::of(self.0.seed, &format!("{what} {times}")), &asked.method)
    }

    /// What there is to say when a request arrives, whether it will be carried out, and, of a POST, whether its sender may know that no
    /// other one is still under way.
    fn arrives(&self, asked: &Asked, behaviour: Behaviour, process: &str) -> (Said, bool, bool) {
        let mut memory = self.memory();
        let refused = asked.is_refused(behaviour) && !memory.was_done(self.0.mode, asked);
        // A look-up tells what is there when it arrives, however late its answer leaves.
        let truth = if refused { (409, json!({"error": "sold out"})) } else { memory.truth(self.0.mode, asked) };
        let has_effect = asked.method != "GET" && !refused && behaviour.effect != Effect::None;
        let may_know = memory.sends.may_know(&asked.text("reference"));
        match asked.method.as_str() {
            "POST" => {
                if asked.is_to_be_forgotten() {
                    memory.to_be_forgotten.insert(asked.text("reference"));
                }
                let leaves_doubt = !refused && !behaviour.says_that_nothing_was_done();
                if let Some(broken) = memory.sends.arrives(self.0.mode, asked, process, has_effect, leaves_doubt) {
                    self.0.ledger.violation(broken);
                }
            }
            "GET" if truth.0 == 404 && behaviour.says == Says::TheTruth => memory.sends.denied(&asked.reference),
            _ => {}
        }
        (truth, has_effect, may_know)
    }

    /// Whether the connection goes on afterwards.
    async fn play(&self, wire: &mut Wire, asked: &Asked, behaviour: Behaviour, process: &str) -> std::io::Result<bool> {
        let (mut truth, has_effect, may_know) = self.arrives(asked, behaviour, process);
        if asked.method != "GET" {
            let lease = lease::is_held(&self.0.database, &self.0.ledger, asked, process).await;
            if self.0.mode.forgets && asked.method == "POST" && !may_know {
                forgotten::is_not_sent(&self.0.ledger, asked, process, lease.as_ref());
            }
        }
        let reference = asked.text("reference");
        if asked.method == "GET" && self.memory().to_be_forgotten.contains(&asked.reference) {
            self.forget(&asked.reference).await;
        }
        if asked.method == "POST" {
            self.0.traps.spring(&When::Sent { reference: reference.clone() }, &reference, process).await;
            if behaviour.tells_nothing() && self.0.mode.deduplicates {
                self.0.traps.spring(&When::Unknown, &reference, process).await;
            }
            if behaviour.loses_its_answer() && self.0.mode.looks_up {
                self.0.traps.spring(&When::Lost, &reference, process).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(behaviour.wait_ms)).await;
        match behaviour.effect {
            Effect::Late(ms) if has_effect => self.carry_out_later(asked.clone(), ms),
            Effect::Now if has_effect => truth = self.carry_out(asked),
            Effect::Late(_) | Effect::Now | Effect::None => {}
        }
        if asked.method == "POST" && behaviour.says == Says::TheTruth {
            match truth.0 {
                200 | 201 => self.0.traps.spring(&When::Booked, &reference, process).await,
                _ if asked.is_scarce() => self.0.traps.spring(&When::Refused, &reference, process).await,
                _ => {}
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
            Says::Garbage => (truth.0, "application/json", "", b"{\"booking_id\": \xff".to_vec()),
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
        if asked.method == "POST" && behaviour.says == Says::TheTruth {
            self.memory().sends.answered(&reference);
        }
        Ok(true)
    }

    /// Keeps what a look-up is told until the key can no longer count on being recognised.
    async fn forget(&self, reference: &str) {
        let age_ms = self.0.database.lease(reference).await.ok().flatten().map(|lease| lease.age_ms);
        if let Some(pause) = age_ms.and_then(forgotten::held_for) {
            self.memory().forgotten.insert(reference.to_owned());
            tokio::time::sleep(pause).await;
        }
    }

    fn carry_out_later(&self, asked: Asked, ms: u64) {
        self.0.coming.fetch_add(1, Ordering::SeqCst);
        let system = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            system.carry_out(&asked);
            system.0.coming.fetch_sub(1, Ordering::SeqCst);
        });
    }

    fn carry_out(&self, asked: &Asked) -> Said {
        let (said, broken) = self.memory().carry_out(self.0.mode, asked);
        if let Some(broken) = broken {
            self.0.ledger.violation(broken);
        }
        said
    }
}

fn head(status: u16, media_type: &str, more: &str, length: usize) -> Vec<u8> {
    format!("HTTP/1.1 {status} Chaos\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{more}\r\n").into_bytes()
}
