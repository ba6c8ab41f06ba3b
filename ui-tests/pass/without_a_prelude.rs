#![no_implicit_prelude]

::anarchon::main!(::anarchon::MemoryBackend);

#[::anarchon::job(every = "100ms", overlap = "skip", data = 7)]
async fn leave(_: ::anarchon::Data<u8>) {
    ::std::process::exit(0);
}
