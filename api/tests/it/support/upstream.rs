//! A booking system that does what a test tells it to, and remembers everything.

use super::service::free_port;
use super::upstream_answers as answers;
use super::wait::eventually;
use super::wire::{Message, Unframed, Wire};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// One thing the booking system does with a request. A script is a list of them; the first that answers ends it.
#[derive(Clone, Debug)]
pub enum Step {
    /// Let so many milliseconds pass.
    After(u64),
    /// Wait until the test opens the gate of this name.
    Gate(&'static str),
    /// The effect alone: what is asked for is done.
    Book,
    /// Do as asked and say so.
    Answer,
    /// The same with 200 instead of 201.
    Answer200,
    /// Do as asked and say so in this content coding.
    Coded(&'static str),
    /// Done, but the answer is this body, said to be in this content coding.
    Packed(&'static str, Arc<Vec<u8>>),
    /// The booking, with these members and no others of those that a change can change.
    Showing(Value),
    Status(u16),
    /// A status with this `Retry-After`.
    Busy(u16, &'static str),
    /// A gateway's page of HTML.
    Page(u16),
    /// The caller is sent elsewhere.
    Redirect(u16, String),
    /// Never say anything.
    Silence,
    Close,
    Reset,
    /// Booked, but only half of the answer comes.
    Half,
    /// Booked, but the answer is no JSON.
    Garbage,
    /// Booked, but the answer names no booking.
    Nameless,
    /// Booked, but the answer has no end.
    Endless,
    /// Booked, but the answer comes a byte at a time.
    Drip,
    /// Booked, with headers that are nobody else's business.
    Chatty,
}

/// A script, one for each request in turn; the last one stays.
type Scripts = VecDeque<Vec<Step>>;

/// A booking that really exists there.
#[derive(Clone, Debug)]
pub struct Booking {
    pub booking_id: String,
    pub reference: String,
    pub item_code: String,
    pub key: String,
    pub details: Value,
    pub cancelled: bool,
}

/// A request that arrived there.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub head: Message,
    pub body: Value,
}

#[derive(Default)]
pub(super) struct Memory {
    requests: Vec<Request>,
    pub(super) bookings: Vec<Booking>,
    posts: HashMap<String, Scripts>,
    lookups: Scripts,
    changes: Scripts,
    gates: HashMap<&'static str, watch::Sender<bool>>,
    connections: Vec<AbortHandle>,
    accepted: usize,
}

/// The booking system. Clones are the same one.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

pub(super) struct Inner {
    port: u16,
    /// Does a second POST under one key book only once?
    pub(super) deduplicates: bool,
    /// Does a look-up by reference tell the truth?
    pub(super) looks_up: bool,
    listening: Mutex<Option<AbortHandle>>,
    deaf: watch::Sender<bool>,
    memory: Mutex<Memory>,
}

impl Upstream {
    pub async fn start(deduplicates: bool, looks_up: bool) -> Self {
        let memory = Mutex::new(Memory::default());
        let upstream = Self(Arc::new(Inner {
            port: free_port(),
            deduplicates,
            looks_up,
            listening: Mutex::default(),
            deaf: watch::Sender::new(false),
            memory,
        }));
        upstream.open().await;
        upstream
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.0.port)
    }

    pub fn deduplicates(&self) -> bool {
        self.0.deduplicates
    }

    pub fn looks_up(&self) -> bool {
        self.0.looks_up
    }

    /// What successive POSTs for this item meet; without any, they are booked.
    pub fn on_post(&self, item: &Value, scripts: impl IntoIterator<Item = Vec<Step>>) {
        let item = item["item_code"].as_str().expect("a body with an item_code").to_owned();
        self.memory().posts.insert(item, scripts.into_iter().collect());
    }

    /// What successive look-ups meet.
    pub fn on_lookup(&self, scripts: impl IntoIterator<Item = Vec<Step>>) {
        self.memory().lookups = scripts.into_iter().collect();
    }

    /// What successive PATCHes and DELETEs meet.
    pub fn on_change(&self, scripts: impl IntoIterator<Item = Vec<Step>>) {
        self.memory().changes = scripts.into_iter().collect();
    }

    pub fn open_gate(&self, name: &'static str) {
        self.gate(name).send_replace(true);
    }

    /// Connections are taken, but nothing on them is read.
    pub fn go_deaf(&self) {
        self.0.deaf.send_replace(true);
    }

    /// Reads again; what was written meanwhile was never received.
    pub fn hear_again(&self) {
        self.memory().connections.drain(..).for_each(|c| c.abort());
        self.0.deaf.send_replace(false);
    }

    /// Nobody listens any more: connections are refused, open ones are cut.
    pub fn close(&self) {
        if let Some(listening) = self.0.listening.lock().unwrap().take() {
            listening.abort();
        }
        self.memory().connections.drain(..).for_each(|c| c.abort());
    }

    pub async fn open(&self) {
        let listener =
            eventually("the port of the booking system is free", async || TcpListener::bind(("127.0.0.1", self.0.port)).await.ok()).await;
        let upstream = self.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = upstream.clone();
                let task = tokio::spawn(async move { served.serve(Wire::new(stream)).await });
                let mut memory = upstream.memory();
                memory.accepted += 1;
                memory.connections.push(task.abort_handle());
            }
        });
        *self.0.listening.lock().unwrap() = Some(listening.abort_handle());
    }

    /// How many connections were ever taken.
    pub fn connections(&self) -> usize {
        self.memory().accepted
    }

    pub fn requests(&self, method: &str) -> Vec<Request> {
        self.memory().requests.iter().filter(|r| r.method == method).cloned().collect()
    }

    /// Everything that arrived, whatever it was.
    pub fn everything(&self) -> usize {
        self.memory().requests.len()
    }

    /// The POSTs for the item of this body.
    pub fn posts(&self, item: &Value) -> Vec<Request> {
        self.requests("POST").into_iter().filter(|r| r.body["item_code"] == item["item_code"]).collect()
    }

    pub fn bookings(&self) -> Vec<Booking> {
        self.memory().bookings.clone()
    }

    /// The bookings of the item of this body.
    pub fn bookings_of(&self, item: &Value) -> Vec<Booking> {
        self.bookings().into_iter().filter(|b| Some(b.item_code.as_str()) == item["item_code"].as_str()).collect()
    }

    /// Waits for the first POST for this item.
    pub async fn post_arrives(&self, item: &Value) -> Request {
        eventually("a POST arrives at the booking system", async || self.posts(item).into_iter().next()).await
    }

    /// Waits until the item is booked.
    pub async fn is_booked(&self, item: &Value) -> Booking {
        eventually("the booking system books", async || self.bookings_of(item).into_iter().next()).await
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap()
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    fn gate(&self, name: &'static str) -> watch::Sender<bool> {
        self.memory().gates.entry(name).or_insert_with(|| watch::Sender::new(false)).clone()
    }

    pub(super) async fn pass_gate(&self, name: &'static str) {
        let _ = self.gate(name).subscribe().wait_for(|open| *open).await;
    }

    async fn serve(&self, mut wire: Wire) {
        loop {
            let _ = self.0.deaf.subscribe().wait_for(|deaf| !*deaf).await;
            let Ok(head) = wire.read(Unframed::Empty).await else { return };
            let mut words = head.start_line.split(' ').map(str::to_owned);
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let body = serde_json::from_slice(&head.body).unwrap_or_default();
            let request = Request { method, path, head, body };
            let script = self.memory().arrived(&request);
            if !answers::play(self, &mut wire, &request, script).await.unwrap_or(false) {
                return;
            }
        }
    }
}

impl Memory {
    /// Writes the request down; the script it meets.
    fn arrived(&mut self, request: &Request) -> Vec<Step> {
        self.requests.push(request.clone());
        let scripts = match request.method.as_str() {
            "POST" => self.posts.get_mut(request.body["item_code"].as_str().unwrap_or_default()),
            "GET" => Some(&mut self.lookups),
            _ => Some(&mut self.changes),
        };
        match scripts {
            Some(scripts) if scripts.len() > 1 => scripts.pop_front().unwrap_or_default(),
            Some(scripts) => scripts.front().cloned().unwrap_or_default(),
            None => Vec::new(),
        }
    }
}
