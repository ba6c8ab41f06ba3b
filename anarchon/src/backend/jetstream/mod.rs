//! What the stores on NATS have in common: the connection, requests to JetStream and what failed ones mean, and the stream
//! that must be there.

mod address;
mod failure;
mod link;
mod stream;

pub(in crate::backend) use self::address::Address;
pub(in crate::backend) use self::failure::Failure;
pub(in crate::backend) use self::link::{Ack, Link, Message};
pub(in crate::backend) use self::stream::{Setting, ensure, replicas, wrong_name};

/// Where a backend finds its servers when no address is given.
macro_rules! finds_servers {
    ($backend:ty) => {
        impl Default for $backend {
            /// The server on this machine, at port 4222.
            fn default() -> Self {
                Self::new("nats://localhost:4222")
            }
        }

        impl From<async_nats::Client> for $backend {
            fn from(client: async_nats::Client) -> Self {
                Self::from_client(client)
            }
        }

        /// The servers that `NATS_URL` names, or the one on this machine.
        #[diagnostic::do_not_recommend]
        impl crate::scheduler::entry::FromEnv for $backend {
            fn from_env() -> Result<Self, crate::error::Error> {
                Ok(crate::scheduler::entry::set("NATS_URL").map_or_else(Self::default, Self::new))
            }
        }
    };
}
pub(in crate::backend) use finds_servers;
