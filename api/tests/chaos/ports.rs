//! Ports that stay free while their process is dead.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the system gives to outgoing connections, and below those that the other tests take.
const FIRST: u16 = 10_000;
const BLOCKS: u16 = 50;
const BLOCK: u16 = 200;

/// A port nobody listens on. Never the same one twice within the next 199: far more than all worlds of one storm need.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = our_block();
    for _ in 1..BLOCK {
        let port = first + 1 + NEXT.fetch_add(1, Ordering::Relaxed) % (BLOCK - 1);
        if listen(port).is_some() {
            return port;
        }
    }
    panic!("no free port");
}

/// A killed server's port is free for a moment. Another run of this program must not take it then: its callers and ours would talk to
/// the wrong world. So each run has a block of ports to itself, for as long as it listens on the first one of it.
fn our_block() -> u16 {
    static GUARD: OnceLock<(u16, TcpListener)> = OnceLock::new();
    let (first, _) = GUARD.get_or_init(|| {
        let start = (std::process::id() % u32::from(BLOCKS)) as u16;
        let blocks = (0..BLOCKS).map(|n| FIRST + (start + n) % BLOCKS * BLOCK);
        blocks.into_iter().find_map(|first| Some((first, listen(first)?))).expect("a block of ports that is free")
    });
    *first
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).ok()
}
