use anarchon::Context;

#[anarchon::job(every = "1h")]
async fn notify(
    _1: Context,
    _2: Context,
    _3: Context,
    _4: Context,
    _5: Context,
    _6: Context,
    _7: Context,
    _8: Context,
    _9: Context,
) {
}

fn main() {}
