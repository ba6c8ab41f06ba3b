#[anarchon::job(every = "1h")]
#[cfg(any())]
async fn never(_missing: Missing) {}

#[cfg(any())]
#[anarchon::job(every = "1h")]
async fn never_either(_missing: Missing) {}

#[cfg_attr(all(), anarchon::job(every = "1h"))]
async fn always() {}

fn main() {}
