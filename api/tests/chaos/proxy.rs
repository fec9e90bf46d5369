//! A wire of one process, to its database or to the booking system, that can be cut, held up, half closed, or lose what it carries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::ports::free_port;

/// What happens to what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Through,
    /// Nothing passes in either direction; it arrives later.
    Hold,
    /// What is asked arrives; what is answered arrives later.
    HoldAnswers,
    /// Every piece takes so many milliseconds.
    Slow(u64),
    /// What is asked arrives, what is answered is lost.
    LoseAnswers,
    /// What is asked is lost.
    LoseQuestions,
    /// The asking direction ends in good order, the other one goes on.
    HalfClose,
}

/// The wire. Clones are the same one.
#[derive(Clone)]
pub struct Proxy(Arc<Inner>);

struct Inner {
    port: u16,
    target: String,
    manner: watch::Sender<Manner>,
    listening: Mutex<Option<AbortHandle>>,
    connections: Mutex<Vec<AbortHandle>>,
    /// One fault at a time, so that their lengths do not add up.
    taken: AtomicBool,
}

impl Proxy {
    pub async fn to(target: String) -> Self {
        let proxy = Self(Arc::new(Inner {
            port: free_port(),
            target,
            manner: watch::Sender::new(Manner::Through),
            listening: Mutex::default(),
            connections: Mutex::default(),
            taken: AtomicBool::default(),
        }));
        proxy.up().await;
        proxy
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// So for that long, then as usual. What has lost something is cut at the end. False where it is in a fault already.
    pub async fn be(&self, manner: Manner, length: Duration) -> bool {
        self.be_until(manner, tokio::time::sleep(length)).await.is_some()
    }

    /// So until that has come about.
    pub async fn be_until<T>(&self, manner: Manner, end: impl Future<Output = T>) -> Option<T> {
        if self.0.taken.swap(true, Ordering::SeqCst) {
            return None;
        }
        self.0.manner.send_replace(manner);
        let ended = end.await;
        if !matches!(manner, Manner::Hold | Manner::HoldAnswers | Manner::Slow(_)) {
            self.cut();
        }
        self.0.manner.send_replace(Manner::Through);
        self.0.taken.store(false, Ordering::SeqCst);
        Some(ended)
    }

    /// Connections are refused for that long, open ones are cut.
    pub async fn be_down(&self, length: Duration) -> bool {
        if self.0.taken.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.close();
        tokio::time::sleep(length).await;
        self.up().await;
        self.0.taken.store(false, Ordering::SeqCst);
        true
    }

    /// For good: its port is free again.
    pub fn close(&self) {
        if let Some(listening) = self.0.listening.lock().unwrap().take() {
            listening.abort();
        }
        self.cut();
    }

    /// Every open connection ends; new ones are taken.
    pub fn cut(&self) {
        self.0.connections.lock().unwrap().drain(..).for_each(|c| c.abort());
    }

    async fn up(&self) {
        let mut listener = TcpListener::bind(("127.0.0.1", self.0.port)).await;
        for _ in 0..100 {
            if listener.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            listener = TcpListener::bind(("127.0.0.1", self.0.port)).await;
        }
        let listener = listener.expect("the port of a wire is free");
        let proxy = self.clone();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let carrying = proxy.clone();
                let task = tokio::spawn(async move { carrying.carry(client).await });
                let mut connections = proxy.0.connections.lock().unwrap();
                connections.retain(|c| !c.is_finished());
                connections.push(task.abort_handle());
            }
        });
        *self.0.listening.lock().unwrap() = Some(listening.abort_handle());
    }

    async fn carry(&self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.0.target).await else { return };
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        // What was asked is passed on even if the asker is gone meanwhile: that is how a send takes effect late.
        let asking = self.pass(from_client, to_server, true);
        let answering = self.pass(from_server, to_client, false);
        tokio::join!(asking, answering);
    }

    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asking: bool) {
        let mut manner = self.0.manner.subscribe();
        let mut piece = vec![0; 16 * 1024];
        loop {
            let read = tokio::select! {
                read = from.read(&mut piece) => read,
                _ = manner.wait_for(|m| asking && *m == Manner::HalfClose) => Ok(0),
            };
            let Ok(length @ 1..) = read else { break };
            let now = *manner.borrow();
            match now {
                Manner::Hold => drop(manner.wait_for(|m| *m != Manner::Hold).await),
                Manner::HoldAnswers if !asking => drop(manner.wait_for(|m| *m != Manner::HoldAnswers).await),
                Manner::Slow(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Manner::Through | Manner::HoldAnswers | Manner::LoseAnswers | Manner::LoseQuestions | Manner::HalfClose => {}
            }
            let lost = matches!((now, asking), (Manner::LoseAnswers, false) | (Manner::LoseQuestions, true));
            if !lost && to.write_all(&piece[..length]).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    }
}
