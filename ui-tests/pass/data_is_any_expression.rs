use anarchon::Data;

#[derive(Clone)]
struct Region {
    name: String,
}

const NORTH: &str = "north";

#[anarchon::job(every = "1h", data = Region { name: NORTH.to_owned() })]
async fn sync(Data(region): Data<Region>) {
    drop(region.name);
}

// The argument decides what the number is.
#[anarchon::job(every = "1h", data = 7)]
async fn count(Data(_): Data<u64>) {}

#[anarchon::job(every = "1h", data = { let mut all = vec![1_u8]; all.push(2); all })]
async fn list(_all: Data<Vec<u8>>) {}

fn main() {}
