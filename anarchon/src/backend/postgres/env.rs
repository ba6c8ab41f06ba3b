//! Where the server is when nobody says so.

use sqlx::postgres::PgConnectOptions;

use crate::backend::sql::clients::SqlxPostgres;
use crate::scheduler::entry::set;

/// What is used where the environment is silent.
const HOST: &str = "localhost";
const DATABASE: &str = "postgres";

/// The server that the environment names.
pub(super) fn client() -> SqlxPostgres {
    match set("DATABASE_URL") {
        Some(url) => SqlxPostgres::at(&url),
        // These options have read the `PG…` variables.
        None => SqlxPostgres::with_options(filled(PgConnectOptions::new(), |name| set(name).is_some())),
    }
}

/// Fills the gaps: without a host sqlx would look for a socket, and without a database take the user's name.
fn filled(options: PgConnectOptions, is_set: impl Fn(&str) -> bool) -> PgConnectOptions {
    let host = is_set("PGHOST") || is_set("PGHOSTADDR");
    let options = if host { options } else { options.host(HOST) };
    if is_set("PGDATABASE") { options } else { options.database(DATABASE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_nothing_else() {
        let given = || PgConnectOptions::new_without_pgpass().host("db.internal").database("billing");
        let none = filled(given(), |_| false);
        assert_eq!((none.get_host(), none.get_database()), ("localhost", Some("postgres")));
        let all = filled(given(), |name| ["PGHOSTADDR", "PGDATABASE"].contains(&name));
        assert_eq!((all.get_host(), all.get_database()), ("db.internal", Some("billing")));
    }
}
