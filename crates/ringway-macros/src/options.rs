//! Parses the options of `#[service(…)]` and `#[method(…)]`.

use proc_macro2::{Ident, Span};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, Error, Expr, LitInt, LitStr, Path, Result, Token};

/// Options of a service.
#[derive(Default)]
pub(crate) struct ServiceOptions {
    pub(crate) library: Option<Path>,
    pub(crate) package: Option<String>,
    pub(crate) name: Option<String>,
    /// Names of the generated types.
    pub(crate) server: Option<Ident>,
    pub(crate) client: Option<Ident>,
    pub(crate) descriptors: Option<Expr>,
}

/// Options of a method.
#[derive(Default)]
pub(crate) struct MethodOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) idempotent: bool,
    pub(crate) no_side_effects: bool,
    /// The span of the option, if it is set.
    pub(crate) offload: Option<Span>,
    pub(crate) tokio: Option<Span>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) concurrency: Option<u32>,
}

/// Options parsed by the function of their kind, each at most once.
fn parse_options(
    input: ParseStream<'_>,
    mut parse_one: impl FnMut(&Ident, ParseStream<'_>) -> Result<()>,
) -> Result<()> {
    let mut seen: Vec<Ident> = Vec::new();
    while !input.is_empty() {
        let key: Ident = input.call(syn::ext::IdentExt::parse_any)?;
        if seen.contains(&key) {
            return Err(Error::new(key.span(), format!("option `{key}` is set twice")));
        }
        parse_one(&key, input)?;
        seen.push(key);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

fn value<T: Parse>(key: &Ident, input: ParseStream<'_>) -> Result<T> {
    if !input.peek(Token![=]) {
        return Err(Error::new(key.span(), format!("option `{key}` needs a value: `{key} = …`")));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

fn unknown(key: &Ident, known: &str) -> Error {
    Error::new(key.span(), format!("unknown option `{key}`; the options are {known}"))
}

impl Parse for ServiceOptions {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        parse_options(input, |key, input| {
            match &*key.to_string() {
                "crate" => options.library = Some(value::<LitStr>(key, input)?.parse()?),
                "package" => options.package = Some(package(&value(key, input)?)?),
                "name" => options.name = Some(identifier(&value(key, input)?)?),
                "server" => options.server = Some(value::<LitStr>(key, input)?.parse()?),
                "client" => options.client = Some(value::<LitStr>(key, input)?.parse()?),
                "descriptors" => options.descriptors = Some(value(key, input)?),
                _ => {
                    let known = "`package`, `name`, `server`, `client`, `descriptors` and `crate`";
                    return Err(unknown(key, known));
                }
            }
            Ok(())
        })?;
        Ok(options)
    }
}

impl MethodOptions {
    /// Removes the `#[method]` attributes from `attributes` and parses them.
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> Result<Self> {
        let mut options = Self::default();
        let mut outcome = Ok(());
        attributes.retain(|attribute| {
            let ours = attribute.path().is_ident("method");
            if ours && outcome.is_ok() {
                let list = attribute.meta.require_list();
                outcome = list.and_then(|list| {
                    let parser = |input: ParseStream<'_>| options.parse_into(input);
                    parser.parse2(list.tokens.clone())
                });
            }
            !ours
        });
        outcome.map(|()| options)
    }

    fn parse_into(&mut self, input: ParseStream<'_>) -> Result<()> {
        parse_options(input, |key, input| {
            match &*key.to_string() {
                "name" => {
                    let name = value(key, input)?;
                    identifier(&name)?;
                    self.name = Some(name);
                }
                "idempotent" => self.idempotent = true,
                "no_side_effects" => self.no_side_effects = true,
                "offload" => self.offload = Some(key.span()),
                "tokio" => self.tokio = Some(key.span()),
                "timeout_ms" => self.timeout_ms = Some(at_least_one(&value(key, input)?)?),
                "concurrency" => self.concurrency = Some(at_least_one(&value(key, input)?)?),
                _ => {
                    let known = "`idempotent`, `no_side_effects`, `offload`, `tokio`, `timeout_ms`, \
                                 `concurrency` and `name`";
                    return Err(unknown(key, known));
                }
            }
            Ok(())
        })
    }
}

fn at_least_one<N>(number: &LitInt) -> Result<N>
where
    N: std::str::FromStr + From<u8> + PartialOrd,
    N::Err: std::fmt::Display,
{
    let parsed: N = number.base10_parse()?;
    match parsed >= N::from(1) {
        true => Ok(parsed),
        false => Err(Error::new(number.span(), "the value must be at least 1")),
    }
}

/// Parses a package: identifiers joined by dots, or nothing for files without a package.
fn package(literal: &LitStr) -> Result<String> {
    let text = literal.value();
    match text.is_empty() || text.split('.').all(is_identifier) {
        true => Ok(text),
        false => Err(Error::new(
            literal.span(),
            "a package name consists of identifiers joined by dots, such as `market.v1`",
        )),
    }
}

fn identifier(literal: &LitStr) -> Result<String> {
    let text = literal.value();
    match is_identifier(&text) {
        true => Ok(text),
        false => Err(Error::new(
            literal.span(),
            "a name consists of letters, digits and `_`, and does not start with a digit",
        )),
    }
}

/// Whether a text may be a name on the network.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Checks the attributes that stay with a method.
pub(crate) fn check_attributes(attributes: &[Attribute]) -> Result<()> {
    let conditional = |attribute: &&Attribute| {
        attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
    };
    match attributes.iter().find(conditional) {
        Some(attribute) => {
            let why =
                "a service method cannot have `cfg`: client and server must agree on the methods";
            Err(Error::new_spanned(attribute, why))
        }
        None => Ok(()),
    }
}

/// The `#[deprecated]` attribute of the item, which the generated items repeat.
pub(crate) fn deprecated(attributes: &[Attribute]) -> Option<&Attribute> {
    attributes.iter().find(|attribute| attribute.path().is_ident("deprecated"))
}
