//! The real `api`, with its default settings unless others are asked for.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

pub struct Server {
    pub port: u16,
    child: Child,
    _folder: TempDir,
}

impl Server {
    /// Starts it on a free port and waits until it serves.
    pub async fn start(database_url: &str, booking_url: &str, settings: &[(String, String)]) -> Self {
        let folder = TempDir::with_prefix("reservation-bench-").expect("a folder");
        // The log costs what it costs in production, but goes nowhere it could fill up.
        let mut child = Command::new(env!("CARGO_BIN_EXE_api"))
            .current_dir(folder.path())
            .env_clear()
            .envs([("DATABASE_URL", database_url), ("BOOKING_URL", booking_url), ("LISTEN", "127.0.0.1:0")])
            .envs(settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let first = lines.next().and_then(Result::ok).expect("the server says where it listens");
        let port = first.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        // Whoever closes the pipe makes its next line fail.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self { port, child, _folder: folder };
        for _ in 0..100 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not listen");
    }

    /// The most memory it has held since this was last asked, in MiB; `None` where the system does not tell.
    pub fn peak_memory_mib(&self) -> Option<f64> {
        let folder = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{folder}/status")).ok()?;
        let peak_kib: f64 = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()?;
        // 5: begin the peak anew.
        let _ = std::fs::write(format!("{folder}/clear_refs"), "5");
        Some(peak_kib / 1024.0)
    }

    /// Processor time it has taken so far, in milliseconds; `None` where the system does not tell.
    pub fn cpu_ms(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name of the program may hold spaces; the fields after it are counted from the third.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        Some(ticks * 10.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
