//! Every rule of the contract, directly and through poolers.

use crate::place::{POOLED_1_18, POOLED_1_24, V15, V18};

anarchon::lease_conformance!(postgres_15, || V15.schema());
anarchon::lease_conformance!(postgres_18, || V18.schema());
anarchon::lease_conformance!(pgbouncer_1_18, || POOLED_1_18.schema());
anarchon::lease_conformance!(pgbouncer_1_24, || POOLED_1_24.schema());
anarchon::history_by_age_conformance!(by_age_on_postgres_15, || V15.schema());
anarchon::history_by_age_conformance!(by_age_on_postgres_18, || V18.schema());
anarchon::transactional_finish_conformance!(within_on_postgres_15, || V15.schema());
anarchon::transactional_finish_conformance!(within_on_postgres_18, || V18.schema());
anarchon::transactional_finish_conformance!(within_behind_pgbouncer_1_18, || POOLED_1_18.schema());
anarchon::transactional_finish_conformance!(within_behind_pgbouncer_1_24, || POOLED_1_24.schema());
