//! The whole program that the README begins with. Its store is `./anarchon.db`, or what `ANARCHON_STORE` names.

use anarchon::Context;

#[anarchon::job(every = "1h", overlap = "skip", max_attempts = 2)]
async fn export_all(ctx: Context) -> Result<(), std::io::Error> {
    println!("exporting for {}", ctx.slot());
    Ok(())
}

anarchon::main!();
