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
