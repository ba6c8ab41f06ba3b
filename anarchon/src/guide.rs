//! Chapters about one matter each, from the first program to the rules that a store keeps.
//!
//! | to begin with | |
//! |---|---|
//! | [`introduction`] | the problem, the idea, and what anarchon is not |
//! | [`quick_start`] | a program from nothing, in two terminals |
//! | [`handlers`] | what a job's function takes, returns and has to mind |
//! | [`effects`] | effects that happen once |
//! | [`schedules`] | `every`, `cron` and `at`; time zones and clock changes |
//! | [`cli`] | the command line that a program has: what runs, what ran, and why something did not |
//! | [`migrating`] | from tokio-cron-scheduler, from the `cron` crate, from a lock of one's own |
//!
//! | what happens when | |
//! |---|---|
//! | [`leases`] | the states of a run, and the rules by which it goes from one to the next |
//! | [`failures`] | crash, freeze, partition, outage, clock jump, deploy, slow handler: one by one |
//! | [`deploys`] | two versions at once, and hand-over |
//! | [`observing`] | health, events, logs and metrics |
//!
//! | where it is decided | |
//! |---|---|
//! | [`backends`] | all stores beside each other, and what each option needs |
//! | [`sqlite`], [`postgres`], [`mysql`], [`libsql`], [`redis`], [`nats`], [`rabbitmq`], [`memory`] | one store each |
//! | [`claims`] | how each store decides in one atomic step |
//! | [`brokers`] | why a message broker can only say who was first |
//! | [`services`] | several services on one store |
//!
//! | for those who build | |
//! |---|---|
//! | [`testing`] | tests of your jobs |
//! | [`own_backend`] | a store of your own |

/// A page. One whose examples need features is there when the documentation is made with them.
macro_rules! page {
    ($name:ident) => {
        #[doc = include_str!(concat!("docs/", stringify!($name), ".md"))]
        pub mod $name {}
    };
    ($name:ident, $feature:literal) => {
        #[cfg_attr(feature = $feature, doc = include_str!(concat!("docs/", stringify!($name), ".md")))]
        #[cfg_attr(not(feature = $feature), doc = "This page is shown where the documentation is made with all features.")]
        pub mod $name {}
    };
}

page!(introduction);
page!(quick_start);
page!(handlers);
page!(effects, "sqlite");
page!(schedules);
page!(cli);
page!(migrating);
#[doc = include_str!("docs/leases.md")]
///
#[doc = include_str!("docs/claim_table.md")]
///
#[doc = include_str!("docs/leases_life.md")]
pub mod leases {}
page!(failures);
page!(deploys);
page!(observing);
page!(backends);
page!(sqlite, "sqlite");
page!(postgres, "postgres");
page!(mysql, "mysql");
page!(libsql, "libsql");
page!(redis, "redis");
page!(nats, "nats");
page!(rabbitmq, "rabbitmq");
page!(memory);
page!(claims);
page!(brokers);
page!(services, "sqlite");
page!(testing, "testing");
page!(own_backend, "testing");
