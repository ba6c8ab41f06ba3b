anarchon::backend!(anarchon::MemoryBackend);

macro_rules! jobs {
    ($($name:ident every $interval:literal keeping $size:expr, overlapping $overlap:tt;)*) => {$(
        #[anarchon::job(every = $interval, history_size = $size, overlap = $overlap)]
        async fn $name() {}
    )*};
}

jobs! {
    first every "1h" keeping 10, overlapping "skip";
    second every "2h" keeping 20, overlapping "allow";
}

fn main() {}
