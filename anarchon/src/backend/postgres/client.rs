//! Any of the clients that there are for PostgreSQL.

use crate::backend::ServerInfo;
#[cfg(feature = "postgres")]
use crate::backend::sql::clients::SqlxPostgres;
#[cfg(feature = "tokio-postgres")]
use crate::backend::sql::clients::TokioPostgres;
use crate::backend::sql::{Row, SqlClient, SqlError, Statement};

/// One of the clients.
#[derive(Debug)]
pub(super) enum Client {
    #[cfg(feature = "postgres")]
    Sqlx(SqlxPostgres),
    #[cfg(feature = "tokio-postgres")]
    Tokio(TokioPostgres),
}

/// Does the same with whichever client it is.
macro_rules! whichever {
    ($any:expr, $client:ident => $does:expr) => {
        match $any {
            #[cfg(feature = "postgres")]
            Client::Sqlx($client) => $does,
            #[cfg(feature = "tokio-postgres")]
            Client::Tokio($client) => $does,
        }
    };
}

impl SqlClient for Client {
    async fn query(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        whichever!(self, client => client.query(statement).await)
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Row>, SqlError> {
        whichever!(self, client => client.batch(statements).await)
    }

    async fn server(&self) -> Result<ServerInfo, SqlError> {
        whichever!(self, client => client.server().await)
    }

    async fn close(&self) {
        whichever!(self, client => client.close().await);
    }
}
