//! The real `api` and `jobs`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct Process {
    pub port: u16,
    log: PathBuf,
    child: Child,
}

/// Where the processes of one part keep their logs, and what they all are told.
pub struct Setup<'a> {
    pub folder: &'a Path,
    pub settings: Vec<(String, String)>,
}

impl Setup<'_> {
    /// The server, ready to serve.
    pub async fn api(&self, settings: &[(&str, &str)]) -> Process {
        let mut process = self.spawn("api", settings);
        let mut lines = BufReader::new(process.child.stdout.take().expect("its output")).lines();
        let first = lines.next().and_then(Result::ok).expect("the server says where it listens");
        process.port = first.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        // Whoever closes the pipe makes its next line fail.
        std::thread::spawn(move || lines.for_each(drop));
        for _ in 0..100 {
            if tokio::net::TcpStream::connect(("127.0.0.1", process.port)).await.is_ok() {
                return process;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not listen");
    }

    /// The scheduler alone.
    pub fn jobs(&self, settings: &[(&str, &str)]) -> Process {
        let mut process = self.spawn("jobs", settings);
        let lines = BufReader::new(process.child.stdout.take().expect("its output")).lines();
        std::thread::spawn(move || lines.for_each(drop));
        process
    }

    fn spawn(&self, program: &str, settings: &[(&str, &str)]) -> Process {
        let path = Path::new(env!("CARGO_BIN_EXE_api")).with_file_name(program);
        assert!(
            path.exists(),
            "{} is missing: build it with the same profile first: 'cargo build --release -p jobs' (make backlog does)",
            path.display()
        );
        let log = self.folder.join(format!("{program}-{}.log", uuid::Uuid::new_v4().simple()));
        let child = Command::new(path)
            .current_dir(self.folder)
            .env_clear()
            .env("LISTEN", "127.0.0.1:0")
            .envs(self.settings.iter().cloned())
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the process starts");
        Process { port: 0, log, child }
    }
}

impl Process {
    /// Stops existing at once.
    pub fn kill(self) {
        drop(self);
    }

    /// Lines in its log that tell of an error.
    pub fn errors(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(" ERROR ") || line.contains("deadlock") || line.contains("locked")).count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
