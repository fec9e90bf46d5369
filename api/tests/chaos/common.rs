//! What the four worlds of one storm have in common: when it begins and ends, and on PostgreSQL the server and what befalls it.

use std::sync::Arc;

use tokio::sync::{Barrier, watch};

use super::ledger::Ledger;
use super::server::OwnServer;

pub struct Common {
    /// PostgreSQL, where it can be stopped.
    pub server: Option<Arc<OwnServer>>,
    /// Of each world.
    pub ledgers: Vec<Arc<Ledger>>,
    pub enough: Arc<Enough>,
    together: Barrier,
}

impl Common {
    pub fn new(worlds: usize, server: Option<Arc<OwnServer>>, enough: Arc<Enough>) -> Self {
        let ledgers = (0..worlds).map(|_| Arc::new(Ledger::new())).collect();
        Self { server, ledgers, enough, together: Barrier::new(worlds) }
    }

    /// Waits until every world has come so far: what befalls the server of all must meet none that is being made or judged.
    pub async fn together(&self) {
        self.together.wait().await;
    }
}

/// How many faults have met somebody in all storms of a run, and how many are enough.
pub struct Enough {
    met: watch::Sender<u64>,
    most: Option<u64>,
}

impl Enough {
    pub fn new(most: Option<u64>) -> Self {
        Self { met: watch::Sender::new(0), most }
    }

    pub fn one_more(&self) {
        self.met.send_modify(|met| *met += 1);
    }

    pub fn is_reached(&self) -> bool {
        self.most.is_some_and(|most| *self.met.borrow() >= most)
    }

    /// Never, where there is no limit.
    pub async fn comes(&self) {
        let most = self.most.unwrap_or(u64::MAX);
        let _ = self.met.subscribe().wait_for(|met| *met >= most).await;
    }
}
