//! A service as its trait and the options of the attribute describe it.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ItemTrait, Path, Result, TraitItem, Type, parse_quote};

use crate::method::Method;
use crate::options::{self, ServiceOptions};

pub(crate) struct Service {
    /// The trait, without the attributes of this macro.
    pub(crate) item: ItemTrait,
    pub(crate) library: Path,
    /// `package.Service`.
    pub(crate) wire_name: String,
    pub(crate) server_name: Ident,
    pub(crate) client_name: Ident,
    pub(crate) descriptors: Option<Expr>,
    pub(crate) methods: Vec<Method>,
}

impl Service {
    pub(crate) fn read(options: ServiceOptions, item: &mut ItemTrait) -> Result<Self> {
        check_trait(item)?;
        let library = options.library.unwrap_or_else(|| parse_quote!(::ringway::rpc));
        let mut errors: Option<Error> = None;
        let mut methods = Vec::new();
        for member in &mut item.items {
            match read_member(member, &library) {
                Ok(method) => methods.push(method),
                Err(error) => match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                },
            }
        }
        if let Some(errors) = errors {
            return Err(errors);
        }
        check_names(&methods)?;
        let name = match options.name {
            Some(name) => name,
            None => name_of(&item.ident)?,
        };
        let wire_name = match options.package.as_deref() {
            None | Some("") => name,
            Some(package) => format!("{package}.{name}"),
        };
        let ident = &item.ident;
        Ok(Self {
            library,
            wire_name,
            server_name: options.server.unwrap_or_else(|| format_ident!("{ident}Server")),
            client_name: options.client.unwrap_or_else(|| format_ident!("{ident}Client")),
            descriptors: options.descriptors,
            methods,
            item: item.clone(),
        })
    }

    /// The trait's `#[deprecated]` attribute.
    pub(crate) fn deprecated(&self) -> Option<&Attribute> {
        options::deprecated(&self.item.attrs)
    }

    /// The codec of a message. Errors about the message point at its type.
    pub(crate) fn codec_of(&self, message: &Type) -> TokenStream {
        let span = message.span();
        let library = self.library.to_token_stream().into_iter().map(|mut token| {
            token.set_span(token.span().located_at(span));
            token
        });
        quote_spanned!(span => #(#library)*::codec_of!(#message))
    }
}

/// The name on the network of a service that is given none.
fn name_of(ident: &Ident) -> Result<String> {
    let name = ident.unraw().to_string();
    if options::is_identifier(&name) {
        return Ok(name);
    }
    let why = format!(
        "the network name of `{ident}` would have letters beyond ASCII: give this service another one with \
         `#[service(name = \"…\")]`"
    );
    Err(Error::new(ident.span(), why))
}

fn check_trait(item: &ItemTrait) -> Result<()> {
    if let Some(token) = &item.unsafety {
        return Err(Error::new_spanned(token, "a service cannot be an `unsafe` trait"));
    }
    if !item.generics.params.is_empty() {
        let why =
            "a service cannot have generic parameters: the types of its messages must be known";
        return Err(Error::new_spanned(&item.generics, why));
    }
    if let Some(clause) = &item.generics.where_clause {
        return Err(Error::new_spanned(clause, "a service cannot have a `where` clause"));
    }
    Ok(())
}

fn read_member(member: &mut TraitItem, library: &Path) -> Result<Method> {
    match member {
        TraitItem::Fn(function) => Method::read(function, library),
        other => Err(Error::new_spanned(other, "a service can contain only methods")),
    }
}

/// No two methods have the same name on the network.
fn check_names(methods: &[Method]) -> Result<()> {
    for (place, method) in methods.iter().enumerate() {
        let earlier = methods[..place].iter().find(|other| other.wire_name == method.wire_name);
        let Some(earlier) = earlier else { continue };
        let why = format!(
            "the network name of `{}` is `{}` as well: give this method another one with \
             `#[method(name = \"…\")]`",
            earlier.ident, method.wire_name
        );
        let span = method.options.name.as_ref().map_or(method.ident.span(), syn::LitStr::span);
        return Err(Error::new(span, why));
    }
    Ok(())
}
