//! Servers of databases, a database of a test's own, and addresses in URLs.

use std::fmt;
use std::marker::PhantomData;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor};

use super::process::{OneProcess, Process};
use super::{Port, block_on};
use crate::store::Server as _;

/// A server that connections `C` lead to.
#[derive(Debug)]
pub struct DatabaseServer<C> {
    url: String,
    /// That of a server of ours.
    ours: Option<(Port, Process)>,
    connections: PhantomData<C>,
}

impl<C> DatabaseServer<C>
where
    C: Connection + fmt::Debug,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    /// The developer's server, if this variable of the environment has its URL.
    pub(super) fn given(variable: &str) -> Option<Self> {
        Some(Self { url: std::env::var(variable).ok()?, ours: None, connections: PhantomData })
    }

    /// A server of ours, which is started.
    pub(super) fn ours(url: String, port: Port, process: Process) -> Self {
        let mut server = Self { url, ours: Some((port, process)), connections: PhantomData };
        server.start();
        server
    }

    /// The URL of its first database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates a database.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn database(&self) -> Database {
        Database::create::<C>(&self.url, self.ours.is_none())
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When it is not a server of ours.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.ours.as_ref().expect("a server of ours").0.address()
    }

    /// Its process, while it is running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.ours.as_ref()?.1.pid()
    }
}

impl<C> OneProcess for DatabaseServer<C>
where
    C: Connection + fmt::Debug,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    fn process(&mut self) -> &mut Process {
        &mut self.ours.as_mut().expect("a server of ours").1
    }

    fn answers(&self) -> impl Fn() -> Result<(), String> + use<C> {
        let url = self.url.clone();
        move || answers::<C>(&url)
    }
}

/// A fresh database. Where the server is not ours, it is removed again.
#[derive(Debug)]
pub struct Database {
    url: String,
    name: String,
    remove: Option<fn(&str, &str)>,
    server: String,
}

impl Database {
    /// Creates one on the server at `url`.
    pub(super) fn create<C>(server: &str, remove: bool) -> Self
    where
        C: Connection,
        for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let name = format!("anarchon_{}_{}", std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        let done = block_on(run::<C>(server, format!("create database {name}")));
        done.unwrap_or_else(|e| panic!("no database can be made at {server}: {e}"));
        let remove = remove.then_some(drop_database::<C> as fn(&str, &str));
        Self { url: Url::of(server).database(&name), name, remove, server: server.to_owned() }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its server listens.
    ///
    /// # Panics
    /// When the URL says that by a name that nobody knows.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let address = Url::of(&self.url).address;
        let found = address.to_socket_addrs().ok().and_then(|mut all| all.next());
        found.unwrap_or_else(|| panic!("`{address}` is no address"))
    }

    /// The same, whose URL leads to another address.
    pub(super) fn moved_to(mut self, address: SocketAddr) -> Self {
        self.url = self.url_through(address);
        self
    }

    /// Its URL by way of something at another address: a pooler or a proxy.
    #[must_use]
    pub fn url_through(&self, address: SocketAddr) -> String {
        through(&self.url, address)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(remove) = self.remove {
            remove(&self.server, &self.name);
        }
    }
}

fn drop_database<C>(server: &str, name: &str)
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    if let Err(error) = block_on(run::<C>(server, format!("drop database {name}"))) {
        eprintln!("the database {name} stays: {error}");
    }
}

/// Runs a statement on a connection of its own.
pub(super) async fn run<C>(url: &str, sql: String) -> Result<(), sqlx::Error>
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    let mut connection = C::connect(url).await?;
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    connection.close().await
}

/// Whether the server at `url` answers a statement.
pub(super) fn answers<C>(url: &str) -> Result<(), String>
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    let patience = std::time::Duration::from_secs(5);
    block_on(async {
        let answer = tokio::time::timeout(patience, run::<C>(url, "select 1".to_owned())).await;
        answer.map_err(|_| "silence".to_owned())?.map_err(|e| e.to_string())
    })
}

/// The URL, with another address in it.
pub(super) fn through(url: &str, address: SocketAddr) -> String {
    let Url { head, database, query, .. } = Url::of(url);
    format!("{head}{address}/{database}{query}")
}

/// `scheme://user:password@`, `host:port`, `database` and `?query`.
struct Url<'a> {
    head: &'a str,
    address: &'a str,
    database: &'a str,
    query: &'a str,
}

impl<'a> Url<'a> {
    fn of(url: &'a str) -> Self {
        let (url, query) = url.split_at(url.find('?').unwrap_or(url.len()));
        let authority = url.find("://").map_or(0, |at| at + 3);
        let end = url[authority..].find('/').map_or(url.len(), |at| authority + at);
        let host = url[..end].rfind('@').map_or(authority, |at| at + 1);
        Self { head: &url[..host], address: &url[host..end], database: url[end..].trim_start_matches('/'), query }
    }

    fn database(&self, name: &str) -> String {
        let Self { head, address, query, .. } = self;
        format!("{head}{address}/{name}{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_databases_in_urls_are_replaced() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7));
        for (url, by_way, other) in [
            ("mysql://h", "mysql://127.0.0.1:7/", "mysql://h/o"),
            ("postgres://u:p@h:1/d", "postgres://u:p@127.0.0.1:7/d", "postgres://u:p@h:1/o"),
            ("postgres://u@h/d?a=b@c/d", "postgres://u@127.0.0.1:7/d?a=b@c/d", "postgres://u@h/o?a=b@c/d"),
        ] {
            assert_eq!(through(url, address), by_way);
            assert_eq!(Url::of(url).database("o"), other);
        }
    }
}
