pub(crate) async fn run(_: &crate::options::Options) -> crate::Fallible<()> {
    Err("not yet".into())
}
