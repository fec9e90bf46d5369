//! A database of its own on the server that `TEST_DATABASE_URL` names.

use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};

pub struct Postgres {
    /// `postgres://user:password@host:port`.
    server: String,
    name: String,
}

impl Postgres {
    /// `None`, with a line that says so, where no server is named.
    pub async fn create() -> Option<Self> {
        let Some(url) = std::env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty()) else {
            println!("PostgreSQL: left out, TEST_DATABASE_URL is not set (make bench sets it)");
            return None;
        };
        let (scheme, rest) = url.split_once("://").expect("TEST_DATABASE_URL is an address");
        let server = format!("{scheme}://{}", rest.split('/').next().expect("a server"));
        let postgres = Self { server, name: format!("bench_{}", std::process::id()) };
        postgres.administrate(&format!("CREATE DATABASE {} TEMPLATE template0", postgres.name)).await;
        Some(postgres)
    }

    pub fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// The database as reached through another port of this machine.
    pub fn url_through(&self, port: u16) -> String {
        let (before, _) = self.server.rsplit_once('@').unwrap_or((&self.server, ""));
        format!("{before}@127.0.0.1:{port}/{}?sslmode=disable", self.name)
    }

    /// `host:port` of the server.
    pub fn address(&self) -> String {
        let address = self.server.rsplit_once(['@', '/']).map_or("", |(_, address)| address);
        if address.contains(':') { address.to_owned() } else { format!("{address}:5432") }
    }

    /// What decides how fast a commit is.
    pub async fn describe(&self) -> String {
        let connection = open(&self.url()).await;
        let mut described = Vec::new();
        for name in ["server_version", "fsync", "synchronous_commit", "full_page_writes"] {
            let row = connection.query_one_raw(Statement::from_string(DbBackend::Postgres, format!("SHOW {name}"))).await;
            let value: String = row.expect("a setting").expect("a row").try_get_by_index(0).expect("a text");
            described.push(format!("{name}={value}"));
        }
        described.join(", ")
    }

    pub async fn execute(&self, sql: &str) {
        open(&self.url()).await.execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    pub async fn remove(self) {
        self.administrate(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await;
    }

    async fn administrate(&self, sql: &str) {
        open(&format!("{}/postgres", self.server)).await.execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

async fn open(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.unwrap_or_else(|e| panic!("{url}: {e}"))
}
