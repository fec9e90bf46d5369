//! A database of its own on the server that `TEST_DATABASE_URL` names.

use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection};

pub struct Postgres {
    /// `postgres://user:password@host:port`.
    pub server: String,
    pub name: String,
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

    pub async fn remove(self) {
        self.administrate(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await;
    }

    async fn administrate(&self, sql: &str) {
        open(&format!("{}/postgres", self.server)).await.execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

pub async fn open(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.unwrap_or_else(|e| panic!("{url}: {e}"))
}
