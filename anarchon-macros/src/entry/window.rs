//! How long the strategy `Script` remembers slots, where a program spells it out.

use std::time::Duration;

use syn::{Expr, ExprCall, Lit};

/// The window in `….strategy(Script::new(Duration::from_secs(600)))`; other expressions are left to the runtime.
pub(crate) fn spelled_out(backend: &Expr) -> Option<Duration> {
    match backend {
        Expr::MethodCall(call) if call.method == "strategy" => script(call.args.first()?),
        Expr::MethodCall(call) => spelled_out(&call.receiver),
        Expr::Await(awaited) => spelled_out(&awaited.base),
        Expr::Try(tried) => spelled_out(&tried.expr),
        Expr::Paren(inner) => spelled_out(&inner.expr),
        Expr::Group(inner) => spelled_out(&inner.expr),
        _ => None,
    }
}

fn script(strategy: &Expr) -> Option<Duration> {
    let (function, window) = call_of("Script", strategy)?;
    let (unit, number) = call_of("Duration", window).filter(|_| function == "new")?;
    let Expr::Lit(literal) = number else { return None };
    let Lit::Int(number) = &literal.lit else { return None };
    let number: u64 = number.base10_parse().ok()?;
    match unit.as_str() {
        "from_millis" => Some(Duration::from_millis(number)),
        "from_secs" => Some(Duration::from_secs(number)),
        "from_mins" => number.checked_mul(60).map(Duration::from_secs),
        "from_hours" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// The function's name and its one argument in `<type>::<function>(<argument>)`, by whatever path the type is named.
fn call_of<'e>(ty: &str, expr: &'e Expr) -> Option<(String, &'e Expr)> {
    let Expr::Call(ExprCall { func, args, .. }) = expr else { return None };
    let Expr::Path(path) = &**func else { return None };
    let mut last = path.path.segments.iter().rev();
    let function = last.next()?.ident.to_string();
    (last.next()?.ident == ty && args.len() == 1).then_some((function, args.first()?))
}
