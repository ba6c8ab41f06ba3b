mod framework {
    pub mod internal {
        pub use scheduling as jobs;
    }
}

#[scheduling::job(every = "1h", overlap = "skip", crate = "crate::framework::internal::jobs")]
async fn notify() {}

fn main() {}
