//! What is asked of PostgreSQL beside the requests: how it is reached and set, and rows for `pgbench`.

use sea_orm::{ConnectionTrait, DbBackend, Statement};

use crate::postgres::{Postgres, open};

impl Postgres {
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
}
