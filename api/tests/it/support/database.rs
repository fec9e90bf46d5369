//! A fresh database for one test: a file, or a database of its own on the PostgreSQL server of the run.

use super::Engine;
use super::link::Link;
use sea_orm::{ConnectOptions, ConnectionTrait, Database as Sea, DatabaseConnection};
use std::path::Path;
use tokio::sync::OnceCell;

/// The database of one test.
pub struct Database {
    engine: Engine,
    /// `sqlite://FILE`, or the server's address without a database's name.
    server: String,
    name: String,
    link: OnceCell<Link>,
}

/// Somebody else keeps every write waiting until this is released.
pub struct Blocked(DatabaseConnection);

impl Blocked {
    pub async fn release(self) {
        self.0.execute_unprepared("ROLLBACK").await.expect("the lock is released");
        self.0.close().await.expect("the connection of the lock is closed");
    }
}

impl Database {
    /// Makes this one anew, empty, with these options of `CREATE DATABASE` (PostgreSQL). Nobody may be connected to it.
    pub async fn recreate(&self, options: &str) {
        self.administrate(&format!("DROP DATABASE {}", self.name)).await;
        self.administrate(&format!("CREATE DATABASE {} TEMPLATE template0 {options}", self.name)).await;
    }

    pub async fn create(engine: Engine, folder: &Path) -> Self {
        let (server, name) = match engine {
            Engine::Sqlite => (format!("sqlite://{}", folder.join("reservations.db").display()), String::new()),
            Engine::Postgres => (postgres_server(), format!("it_{}", uuid::Uuid::new_v4().simple())),
        };
        let database = Self { engine, server, name, link: OnceCell::new() };
        if engine == Engine::Postgres {
            // template0: nobody can be connected to it, and a template somebody is connected to cannot be copied.
            database.administrate(&format!("CREATE DATABASE {} TEMPLATE template0", database.name)).await;
        }
        database
    }

    pub async fn remove(&self) {
        if self.engine == Engine::Postgres {
            self.administrate(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await;
            for role in [self.name.clone(), self.role()] {
                self.administrate(&format!("DROP ROLE IF EXISTS {role}")).await;
            }
        }
    }

    /// Where the service finds it.
    pub fn url(&self) -> String {
        match (self.engine, self.link.get()) {
            (Engine::Sqlite, _) => format!("{}?mode=rwc", self.server),
            (Engine::Postgres, None) => format!("{}/{}", self.server, self.name),
            (Engine::Postgres, Some(link)) => {
                let (before, _) = self.server.rsplit_once('@').unwrap_or((&self.server, ""));
                format!("{before}@127.0.0.1:{}/{}?sslmode=disable", link.port(), self.name)
            }
        }
    }

    /// The wire between the service and PostgreSQL. To be asked for before the service starts.
    pub async fn link(&self) -> &Link {
        let address = self.server.rsplit_once('@').map_or("", |(_, address)| address);
        self.link.get_or_init(|| Link::to(address.to_owned())).await
    }

    pub async fn connect(&self) -> DatabaseConnection {
        open(&match self.engine {
            Engine::Sqlite => self.server.clone(),
            Engine::Postgres => format!("{}/{}", self.server, self.name),
        })
        .await
    }

    /// A connection the way the service has it: through the link, where there is one. It makes the file if there is none.
    pub async fn connect_as_the_service_does(&self) -> DatabaseConnection {
        open(&self.url()).await
    }

    /// The address of an empty one beside it, which goes with it.
    pub async fn another(&self, name: &str) -> String {
        match self.engine {
            Engine::Sqlite => self.url().replace(".db", &format!("-{name}.db")),
            Engine::Postgres => {
                let connection = self.connect().await;
                connection.execute_unprepared(&format!("CREATE SCHEMA {name}")).await.expect("a schema");
                connection.close().await.expect("the connection is closed");
                format!("{}/{}?options=-c%20search_path%3D{name}", self.server, self.name)
            }
        }
    }

    /// How many rows of any table hold this text.
    pub async fn rows_with(&self, text: &str) -> i64 {
        let connection = self.connect().await;
        let mut found = 0;
        for table in self.tables(&connection).await {
            let as_text = match self.engine {
                Engine::Postgres => format!("SELECT count(*) AS n FROM \"{table}\" t WHERE position('{text}' in t::text) > 0"),
                Engine::Sqlite => {
                    let columns = self.strings(&connection, &format!("SELECT name FROM pragma_table_info('{table}')")).await;
                    let any =
                        columns.iter().map(|c| format!("instr(CAST(\"{c}\" AS TEXT), '{text}') > 0")).collect::<Vec<_>>().join(" OR ");
                    format!("SELECT count(*) AS n FROM \"{table}\" WHERE {any}")
                }
            };
            let row = connection.query_one_raw(self.statement(&as_text)).await.expect("the rows are counted").expect("a count");
            found += row.try_get::<i64>("", "n").expect("a number");
        }
        connection.close().await.expect("the connection is closed");
        found
    }

    /// Every write waits until this is released; reads go on.
    pub async fn block_writes(&self) -> Blocked {
        let connection = self.connect().await;
        let lock = match self.engine {
            Engine::Sqlite => "BEGIN IMMEDIATE".to_owned(),
            Engine::Postgres => {
                let tables = self.tables(&connection).await;
                let tables = tables.iter().map(|t| format!("\"{t}\"")).collect::<Vec<_>>().join(", ");
                format!("BEGIN; LOCK TABLE {tables} IN SHARE MODE")
            }
        };
        connection.execute_unprepared(&lock).await.expect("the writes are blocked");
        Blocked(connection)
    }

    /// Holds a lock of the session's until it is released (PostgreSQL).
    pub async fn locked(&self, lock: &str) -> Blocked {
        let connection = self.connect().await;
        connection.execute_unprepared(&format!("BEGIN; {lock}")).await.unwrap_or_else(|e| panic!("{lock}: {e}"));
        Blocked(connection)
    }

    /// Does to the database what nobody should, or what an administrator would.
    pub async fn execute(&self, sql: &str) {
        let connection = self.connect().await;
        connection.execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        connection.close().await.expect("the connection is closed");
    }

    /// Whether the database itself does not let this happen.
    pub async fn refuses(&self, sql: &str) -> bool {
        let connection = self.connect().await;
        let refused = connection.execute_unprepared(sql).await.is_err();
        connection.close().await.expect("the connection is closed");
        refused
    }

    /// The number `n` that this query gives.
    pub async fn number(&self, sql: &str) -> i64 {
        let connection = self.connect().await;
        let row = connection.query_one_raw(self.statement(sql)).await.unwrap_or_else(|e| panic!("{sql}: {e}")).expect("a row");
        connection.close().await.expect("the connection is closed");
        row.try_get("", "n").expect("a number")
    }

    /// Where a login of its own finds the database (PostgreSQL): it owns it and is no superuser, so that limits and permissions hold for it.
    pub async fn url_of_its_owner(&self) -> String {
        let name = &self.name;
        self.administrate(&format!("CREATE ROLE {name} LOGIN PASSWORD 'owner'")).await;
        self.administrate(&format!("ALTER DATABASE {name} OWNER TO {name}")).await;
        let (_, address) = self.server.rsplit_once('@').expect("user@host");
        format!("postgres://{name}:owner@{address}/{name}")
    }

    /// Where a login of its own finds the database, which owns nothing and may look into the schema `public` (PostgreSQL).
    pub async fn url_of_a_role(&self) -> String {
        let role = self.role();
        self.administrate(&format!("CREATE ROLE {role} LOGIN PASSWORD 'role'")).await;
        self.execute(&format!("GRANT USAGE ON SCHEMA public TO {role}")).await;
        let (_, address) = self.server.rsplit_once('@').expect("user@host");
        format!("postgres://{role}:role@{address}/{}", self.name)
    }

    /// The name of that login.
    pub fn role(&self) -> String {
        format!("{}_rows", self.name)
    }

    /// `postgres://user@host:port`.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The database's name, which is its owner's, too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends every session that calls itself so, or all where there is no name (PostgreSQL).
    pub async fn end_sessions(&self, application: Option<&str>) {
        let which = application.map_or_else(String::new, |name| format!(" AND application_name = '{name}'"));
        let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'{which}", self.name);
        self.administrate(&sql).await;
    }

    /// Sessions of the service that sit in an open transaction without doing anything (PostgreSQL).
    pub async fn idle_in_transaction(&self) -> i64 {
        let connection = self.connect().await;
        let sql = format!(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = '{}' AND state LIKE 'idle in transaction%' \
             AND now() - state_change > interval '500 milliseconds'",
            self.name
        );
        let row = connection.query_one_raw(self.statement(&sql)).await.expect("the sessions are counted").expect("a count");
        connection.close().await.expect("the connection is closed");
        row.try_get("", "n").expect("a number")
    }

    async fn tables(&self, connection: &DatabaseConnection) -> Vec<String> {
        let sql = match self.engine {
            Engine::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
            Engine::Postgres => "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = 'public'",
        };
        self.strings(connection, sql).await
    }

    async fn strings(&self, connection: &DatabaseConnection, sql: &str) -> Vec<String> {
        let rows = connection.query_all_raw(self.statement(sql)).await.expect("the names are read");
        rows.iter().map(|row| row.try_get("", "name").expect("a name")).collect()
    }

    fn statement(&self, sql: &str) -> sea_orm::Statement {
        let backend = match self.engine {
            Engine::Sqlite => sea_orm::DbBackend::Sqlite,
            Engine::Postgres => sea_orm::DbBackend::Postgres,
        };
        sea_orm::Statement::from_string(backend, sql)
    }

    pub async fn administrate(&self, sql: &str) {
        let connection = open(&format!("{}/postgres", self.server)).await;
        connection.execute_unprepared(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        connection.close().await.expect("the connection is closed");
    }
}

pub(super) async fn open(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    Sea::connect(options).await.unwrap_or_else(|e| panic!("the test's own connection to {url}: {e}"))
}

/// `postgres://user:password@host:port`.
fn postgres_server() -> String {
    let url = std::env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty());
    let Some(url) = url else {
        panic!("PostgreSQL tests need TEST_DATABASE_URL: run them as '.ci/with-postgres cargo test --workspace' (make test does)");
    };
    let address_at = url.find('@').map_or(0, |at| at + 1);
    let end = url[address_at..].find('/').map_or(url.len(), |slash| address_at + slash);
    assert!(address_at > 0, "TEST_DATABASE_URL must look like postgres://user@host:port/postgres");
    url[..end].to_owned()
}
