mod framework {
    pub mod internal {
        pub use anarchon as jobs;
    }
}

#[framework::internal::jobs::job(every = "1h", overlap = "skip", crate = "crate::framework::internal::jobs")]
async fn notify() {}

fn main() {}
