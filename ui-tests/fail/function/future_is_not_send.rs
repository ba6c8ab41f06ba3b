#[anarchon::job(every = "1h")]
async fn notify() {
    let shared = std::rc::Rc::new(7);
    std::future::ready(()).await;
    drop(shared);
}

fn main() {}
