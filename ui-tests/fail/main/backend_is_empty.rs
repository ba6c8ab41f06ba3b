anarchon::backend!();

fn main() {}
