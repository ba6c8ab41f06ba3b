use anarchon::{Context, Data, State};

type Numbers = State<Vec<u8>>;

#[anarchon::job(every = "1h", data = Vec::new())]
async fn notify(
    _1: Context,
    State(_2): State<String>,
    Data(_3): Data<Vec<u64>>,
    _4: Numbers,
    mut _5: anarchon::State<u32>,
    _6: State<&'static str>,
    _7: State<Option<(u8, [u8; 4])>>,
    State(_8): State<std::sync::Arc<dyn Fn() + Send + Sync>>,
) {
    _5.0 += 1;
}

fn main() {}
