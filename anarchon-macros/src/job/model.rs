//! A valid job, or nothing: what no option can tell by itself is checked here.

use std::time::Duration;

use anarchon_schedule::zone::Tz;
use anarchon_schedule::{At, Cron, Dialect, Every, ParseError, Schedule, interval, name};
use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Expr, FnArg, GenericArgument, LitStr, Path, PathArguments, ReturnType, Safety, Signature, Type,
    Visibility,
};

use super::args::{Args, Number, Overlap, Spanned, When};
use crate::diagnostic::Errors;

/// The most extractors a handler takes.
const MOST_ARGUMENTS: usize = 8;

/// A job that can be written out.
pub(crate) struct Job {
    pub(crate) krate: Option<Path>,
    pub(crate) name: String,
    /// Where the name is said.
    pub(crate) named: Span,
    pub(crate) when: Checked,
    pub(crate) numbers: Vec<(Ident, Number)>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) data: Option<Expr>,
    pub(crate) marked: Vec<Ident>,
    pub(crate) function: Function,
}

/// A schedule as the runtime takes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Every { interval_ms: u64, offset_ms: u64 },
    Cron { expression: String, dialect: Dialect, timezone: Option<String> },
    At { time: String, timezone: Option<String> },
}

/// What is needed of the annotated function.
pub(crate) struct Function {
    pub(crate) ident: Ident,
    pub(crate) arguments: Vec<Type>,
    pub(crate) output: Span,
    /// Its `#[cfg]`s, under which the job exists too.
    pub(crate) cfgs: Vec<Attribute>,
}

impl Job {
    pub(crate) fn check(args: Args, function: Option<Function>, errors: &mut Errors) -> Option<Self> {
        let when = schedule(&args, function.as_ref(), errors);
        let function = function?;
        let name = match &args.name {
            Some(literal) => literal.value(),
            None => function.ident.unraw().to_string(),
        };
        if args.name.is_none()
            && let Some(fault) = name::fault(&name)
        {
            errors.at(
                function.ident.span(),
                format!("this cannot be a job's name: {fault}; give it one with `name = \"…\"`"),
            );
        }
        Some(Self {
            krate: args.krate,
            name,
            named: args.name.as_ref().map_or(function.ident.span(), LitStr::span),
            when: when?,
            numbers: args.numbers,
            overlap: args.overlap.map(|overlap| overlap.value),
            data: args.data,
            marked: args.marked,
            function,
        })
    }
}

/// The one schedule. Where there are more, each is checked all the same, so that all that is wrong is known at once.
fn schedule(args: &Args, function: Option<&Function>, errors: &mut Errors) -> Option<Checked> {
    let Some(((key, when), more)) = args.schedules.split_first() else {
        // The attribute's place, but as if the user had written it: else the compiler adds that a macro did.
        let span = function.map_or(Span::call_site(), |function| Span::call_site().resolved_at(function.ident.span()));
        errors.at(
            span,
            "this job has no schedule; write `every = \"1h\"`, `cron = \"0 8 * * MON-FRI\"` or `at = \"2027-01-01T00:00:00\"`",
        );
        return None;
    };
    if more.is_empty() {
        fitting(args, when, errors);
    }
    let checked = read(args, when, errors);
    for (other, when) in more {
        errors.at(other.span(), format!("`{other}` cannot be combined with `{key}`; a job has one schedule"));
        read(args, when, errors);
    }
    let (schedule, checked) = checked?;
    if more.is_empty() {
        jitter(args.jitter.as_ref(), &schedule, errors);
    }
    Some(checked)
}

fn read(args: &Args, when: &When, errors: &mut Errors) -> Option<(Schedule, Checked)> {
    let timezone = args.timezone.as_ref().and_then(|zone| zone.value.as_ref());
    let name = || timezone.map(|(name, _)| name.clone());
    Some(match when {
        When::Every(interval, literal) => {
            let (interval, literal) = (interval.as_ref()?, literal.as_ref()?);
            if let Err(error) = Every::new(*interval, Duration::ZERO) {
                errors.text(literal, &error);
                return None;
            }
            let offset = args.offset.as_ref();
            let moved = offset.map_or(Duration::ZERO, |offset| offset.value);
            let every = Every::new(*interval, moved).map_err(|error| offset_error(offset, &error, errors)).ok()?;
            let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            (every.into(), Checked::Every { interval_ms: ms(every.interval()), offset_ms: ms(every.offset()) })
        }
        When::Cron(literal) => {
            let literal = literal.as_ref()?;
            let dialect = args.dialect.as_ref().map_or(Some(Dialect::Unix), |dialect| dialect.value)?;
            // The scheduler's zone isn't known here; UTC stands for it.
            let zone = timezone.map_or(Tz::UTC, |(_, zone)| *zone);
            let cron = crate::text::read(literal, errors, |line| Cron::parse(line, dialect, zone))?;
            (cron.into(), Checked::Cron { expression: literal.value(), dialect, timezone: name() })
        }
        When::At(literal) => {
            let literal = literal.as_ref()?;
            let at = crate::text::read(literal, errors, |time| At::parse(time, timezone.map(|(_, zone)| *zone)))?;
            (at.into(), Checked::At { time: literal.value(), timezone: name() })
        }
    })
}

/// Options that go with some schedules only.
fn fitting(args: &Args, when: &When, errors: &mut Errors) {
    let (every, cron, at) =
        (matches!(when, When::Every(..)), matches!(when, When::Cron(_)), matches!(when, When::At(_)));
    if let Some(zone) = args.timezone.as_ref().filter(|_| every) {
        errors.at(
            zone.key.span(),
            "`timezone` does not go with `every`: its grid begins at the Unix epoch; shift it with `offset`, or use `cron`",
        );
    }
    if let Some(offset) = args.offset.as_ref().filter(|_| !every) {
        let other = if cron { "`cron`; write the shift into the line" } else { "`at`; write the time itself" };
        errors.at(offset.key.span(), format!("`offset` goes with `every` only, not with {other}"));
    }
    if let Some(dialect) = args.dialect.as_ref().filter(|_| !cron) {
        errors.at(dialect.key.span(), "`dialect` says how a cron line is read; it goes with `cron` only");
    }
    if let Some(overlap) = args.marked.iter().find(|key| at && *key == "overlap") {
        errors.at(
            overlap.span(),
            "`overlap` does not go with `at`: a job that runs once has nothing to overlap with; leave it out",
        );
    }
}

fn offset_error(offset: Option<&Spanned<Duration>>, error: &ParseError, errors: &mut Errors) {
    if let Some(literal) = offset.and_then(|offset| offset.literal.as_ref()) {
        errors.at(literal.span(), error);
    }
}

/// A wait must end before the next slot.
fn jitter(jitter: Option<&Spanned<Duration>>, schedule: &Schedule, errors: &mut Errors) {
    let (Some(jitter), Some(gap)) = (jitter, schedule.shortest_gap()) else { return };
    if jitter.value < gap {
        return;
    }
    let span = jitter.literal.as_ref().map_or(jitter.key.span(), |literal| literal.span());
    let (long, gap) = (interval::format(jitter.value), interval::format(gap));
    errors.at(
        span,
        format!("a jitter of `{long}` is too long: the next slot can come after `{gap}`; write less than that"),
    );
}

/// The head of a function. Its body is nobody's business here, and may be unfinished.
struct Head {
    attributes: Vec<Attribute>,
    signature: Signature,
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let signature = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(Self { attributes, signature })
    }
}

impl Function {
    pub(crate) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Self> {
        let first = item.clone().into_iter().next().map(|token| token.span());
        let Ok(Head { attributes, signature }) = syn::parse2(item) else {
            let span = first.unwrap_or_else(Span::call_site);
            errors.at(span, "a job is an async function; `#[anarchon::job]` goes on an `async fn`");
            return None;
        };
        let before = errors.count();
        if signature.asyncness.is_none() {
            errors.at(
                signature.fn_token.span(),
                format!("a job is an async function; write `async fn {}`", signature.ident),
            );
        }
        if let Safety::Unsafe(token) = &signature.safety {
            errors.on(token, "a job cannot be unsafe: the scheduler calls it");
        }
        if let Some(abi) = &signature.abi {
            errors.on(abi, "a job cannot have an ABI of its own");
        }
        if !signature.generics.params.is_empty() {
            errors.on(
                &signature.generics,
                "a job cannot be generic: nothing says which type to run it with; write a function per type, or add jobs at run time",
            );
        } else if let Some(clause) = &signature.generics.where_clause {
            errors.on(clause, "a job cannot have a `where` clause");
        }
        let mut arguments = Vec::new();
        for (index, argument) in signature.inputs.iter().enumerate() {
            match argument {
                FnArg::Receiver(receiver) => errors.on(
                    receiver,
                    "a job cannot be a method; make it a function and take the value as `State<T>`",
                ),
                FnArg::Typed(argument) => match &*argument.ty {
                    Type::ImplTrait(ty) => {
                        errors.on(ty, "a job cannot be generic; write the type itself, as in `State<MyType>`");
                    }
                    ty if index < MOST_ARGUMENTS => arguments.push(ty.clone()),
                    ty => errors.on(
                        ty,
                        format!("a job takes at most {MOST_ARGUMENTS} arguments; gather some in one struct, as in `State<MyState>`"),
                    ),
                },
            }
        }
        let output = match &signature.output {
            ReturnType::Default => signature.ident.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        let cfgs = attributes.into_iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
        (errors.count() == before).then_some(Self { ident: signature.ident, arguments, output, cfgs })
    }

    /// The `T` of the argument `Data<T>`, if there is exactly one.
    pub(crate) fn data(&self) -> Option<&Type> {
        let mut found = self.arguments.iter().filter_map(|ty| within("Data", ty));
        found.next().filter(|_| found.next().is_none())
    }

    /// The arguments `Finish<Db>`, which not every store can honour.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &Type> {
        self.arguments.iter().filter(|ty| within("Finish", ty).is_some())
    }
}

/// The `T` of a type that is written as `<name><T>`.
fn within<'t>(name: &str, ty: &'t Type) -> Option<&'t Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}
