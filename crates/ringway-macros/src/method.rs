//! A method of a service.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Error, Path, Result, TraitItemFn, Type, parse_quote};

use crate::options::{self, MethodOptions};
use crate::signature::{self, Shape};

pub(crate) struct Method {
    pub(crate) ident: Ident,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) deprecated: Option<Attribute>,
    pub(crate) wire_name: String,
    pub(crate) shape: Shape,
    pub(crate) options: MethodOptions,
}

impl Method {
    /// Reads a function of the trait and removes this macro's attributes from it. `library` is the path of
    /// `Context`, `Sink` and `Streaming`.
    ///
    /// # Errors
    /// The error says what is wrong and what to do instead, at the offending tokens.
    pub(crate) fn read(function: &mut TraitItemFn, library: &Path) -> Result<Self> {
        let options = MethodOptions::take(&mut function.attrs)?;
        options::check_attributes(&function.attrs)?;
        if let Some(body) = &function.default {
            let why = "a service method cannot have a body in the trait: end it with `;` and write the \
                       body in the `impl`";
            return Err(Error::new_spanned(body, why));
        }
        let ident = function.sig.ident.clone();
        if CLIENT_FUNCTIONS.contains(&&*ident.unraw().to_string()) {
            let why = format!(
                "the generated client has a function called `{ident}` already: rename this method, and \
                 set its network name with `#[method(name = \"…\")]`"
            );
            return Err(Error::new(ident.span(), why));
        }
        let shape = signature::read(&function.sig, library)?;
        if let Some(span) = options.offload
            && (shape.streams_in || shape.streams_out)
        {
            let why = "only a unary method can be offloaded: use `spawn_blocking` inside this one";
            return Err(Error::new(span, why));
        }
        if let (Some(_), Some(span)) = (options.offload, options.tokio) {
            let why = "`offload` and `tokio` exclude each other: an offloaded method may block its \
                       thread, a `tokio` method awaits on its core";
            return Err(Error::new(span, why));
        }
        let wire_name = match &options.name {
            Some(name) => name.value(),
            None => name_of(&ident)?,
        };
        let docs = function.attrs.iter().filter(|it| it.path().is_ident("doc")).cloned().collect();
        let deprecated = options::deprecated(&function.attrs).cloned();
        Ok(Self { ident, docs, deprecated, wire_name, shape, options })
    }

    /// The library's function that adds or calls a method of this kind.
    pub(crate) fn kind_function(&self) -> TokenStream {
        match (self.shape.streams_in, self.shape.streams_out) {
            (false, false) => quote!(unary),
            (true, false) => quote!(client_stream),
            (false, true) => quote!(server_stream),
            (true, true) => quote!(bidi),
        }
    }

    fn kind(&self) -> TokenStream {
        match (self.shape.streams_in, self.shape.streams_out) {
            (false, false) => quote!(Unary),
            (true, false) => quote!(ClientStream),
            (false, true) => quote!(ServerStream),
            (true, true) => quote!(Bidi),
        }
    }

    /// An expression that makes the method's descriptor.
    pub(crate) fn descriptor(&self, library: &Path, service: &str) -> TokenStream {
        let name = format!("{service}/{}", self.wire_name);
        let kind = self.kind();
        let idempotent = self.options.idempotent.then(|| quote!(.idempotent()));
        let safe = self.options.no_side_effects.then(|| quote!(.no_side_effects()));
        let offload = self.options.offload.map(|_| quote!(.offload()));
        let timeout = self.options.timeout_ms.map(|ms| quote!(.timeout_ms(#ms)));
        let concurrency = self.options.concurrency.map(|calls| quote!(.concurrency(#calls)));
        let parameters = self.parameters();
        let parameters = (!parameters.is_empty()).then(|| quote!(.parameters(&[#(#parameters),*])));
        quote! {
            #library::Method::new(#name, #library::Kind::#kind)
                #idempotent #safe #offload #timeout #concurrency #parameters
        }
    }

    /// The names of the values of its request.
    pub(crate) fn parameters(&self) -> Vec<String> {
        self.shape.values.iter().map(|value| value.name.unraw().to_string()).collect()
    }

    /// The type of its request on the wire, and the type that names its values if there are several.
    pub(crate) fn input(&self, library: &Path, place: usize) -> (Type, Option<Ident>) {
        if self.shape.values.len() < 2 {
            return (self.shape.input.clone(), None);
        }
        let names = format_ident!("__Names{place}");
        let types = self.shape.values.iter().map(|value| &value.ty);
        (parse_quote!(#library::Arguments<#names, (#(#types,)*)>), Some(names))
    }
}

/// The functions that every generated client has.
const CLIENT_FUNCTIONS: [&str; 2] = ["new", "with"];

/// The name on the network of a method that is given none.
fn name_of(ident: &Ident) -> Result<String> {
    let name = upper_camel_case(&ident.unraw().to_string());
    if options::is_identifier(&name) {
        return Ok(name);
    }
    let why = format!(
        "the network name of `{ident}` would be `{name}`, but a name consists of letters of ASCII, digits and `_`, \
         and does not start with a digit: give this method another one with `#[method(name = \"…\")]`"
    );
    Err(Error::new(ident.span(), why))
}

/// Converts a method's name to protobuf's style: `place_order` is called `PlaceOrder`.
fn upper_camel_case(name: &str) -> String {
    let capitalised = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(capitalised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_network_are_camel_case() {
        for (name, expected) in [
            ("quote", "Quote"),
            ("place_order", "PlaceOrder"),
            ("get_v2", "GetV2"),
            ("_odd__name_", "OddName"),
        ] {
            assert_eq!(upper_camel_case(name), expected);
        }
    }
}
