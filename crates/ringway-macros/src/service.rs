//! From the trait to everything that is generated.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, Item, ItemTrait, Path, Result, TraitItem, Type, parse_quote};

use crate::method::Method;
use crate::options::{self, MethodOptions, ServiceOptions};
use crate::{client, server};

pub(crate) struct Service {
    /// Without the attributes that are ours.
    pub(crate) item: ItemTrait,
    pub(crate) library: Path,
    /// `package.Service`.
    pub(crate) wire_name: String,
    pub(crate) server_name: Ident,
    pub(crate) client_name: Ident,
    pub(crate) descriptors: Option<Expr>,
    pub(crate) methods: Vec<Method>,
}

/// The whole attribute. After an error the trait is still there, so that what uses it is not in
/// error as well.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = match parse_trait(item.clone()) {
        Ok(item) => item,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#item #error);
        }
    };
    let read = syn::parse2(options).and_then(|options| Service::read(options, &mut item));
    match read {
        Ok(service) => service.generate(),
        Err(error) => {
            let error = error.into_compile_error();
            strip(&mut item);
            quote!(#[allow(async_fn_in_trait, dead_code)] #item #error)
        }
    }
}

fn parse_trait(item: TokenStream) -> Result<ItemTrait> {
    match syn::parse2(item)? {
        Item::Trait(item) => Ok(item),
        other => {
            let why = "`#[service]` goes on a trait, whose methods are those of the service";
            Err(Error::new_spanned(first_tokens(&other), why))
        }
    }
}

/// The start of an item is enough to show where it is.
fn first_tokens(item: &Item) -> TokenStream {
    item.to_token_stream().into_iter().take(2).collect()
}

/// Takes out the attributes that only this macro knows, whatever is wrong with them.
fn strip(item: &mut ItemTrait) {
    for member in &mut item.items {
        if let TraitItem::Fn(function) = member {
            _ = MethodOptions::take(&mut function.attrs);
        }
    }
}

impl Service {
    fn read(options: ServiceOptions, item: &mut ItemTrait) -> Result<Self> {
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
        let name =
            options.name.unwrap_or_else(|| syn::ext::IdentExt::unraw(&item.ident).to_string());
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

    /// The attribute of that name, where the trait has it.
    pub(crate) fn deprecated(&self) -> Option<&Attribute> {
        options::deprecated(&self.item.attrs)
    }

    /// The codec of a message. What is wrong with the message is said where its type stands.
    pub(crate) fn codec_of(&self, message: &Type) -> TokenStream {
        let span = message.span();
        let library = self.library.to_token_stream().into_iter().map(|mut token| {
            token.set_span(token.span().located_at(span));
            token
        });
        quote_spanned!(span => #(#library)*::codec_of!(#message))
    }

    fn generate(&self) -> TokenStream {
        let item = &self.item;
        let library = &self.library;
        let wire_name = &self.wire_name;
        let count = self.methods.len();
        let methods = self.methods.iter().map(|method| method.descriptor(library, wire_name));
        let descriptors = match &self.descriptors {
            Some(descriptors) => quote!(::core::option::Option::Some(#descriptors)),
            None => quote!(::core::option::Option::None),
        };
        let shadows = PARAMETERS.map(|name| {
            let name = Ident::new(name, Span::call_site());
            quote!(#[allow(dead_code)] fn #name() {})
        });
        let server_type = server::type_of(self);
        let client_type = client::type_of(self);
        let server = server::implementation(self);
        let client = client::implementation(self);
        quote! {
            #[allow(async_fn_in_trait, dead_code)]
            #item
            #server_type
            #client_type
            #[allow(deprecated)] // whoever calls is warned
            const _: () = {
                static __METHODS: [#library::Method; #count] = [#(#methods),*];
                static __SERVICE: #library::ServiceDescriptor = #library::ServiceDescriptor {
                    name: #wire_name,
                    methods: &__METHODS,
                    file_descriptor_set: #descriptors,
                };
                #(#shadows)*
                #server
                #client
            };
        }
    }
}

/// What the parameters of generated functions are called, for those who read the documentation. A
/// constant of such a name would make a pattern of the parameter, so a function hides it.
const PARAMETERS: [&str; 5] = ["service", "make", "client", "options", "request"];

fn check_trait(item: &ItemTrait) -> Result<()> {
    if let Some(token) = &item.unsafety {
        return Err(Error::new_spanned(token, "a service is not `unsafe`"));
    }
    if !item.generics.params.is_empty() {
        let why = "a service has no generic parameters: the client has to know which messages to \
                   send";
        return Err(Error::new_spanned(&item.generics, why));
    }
    if let Some(clause) = &item.generics.where_clause {
        return Err(Error::new_spanned(clause, "a service has no `where` clause"));
    }
    Ok(())
}

fn read_member(member: &mut TraitItem, library: &Path) -> Result<Method> {
    match member {
        TraitItem::Fn(function) => Method::read(function, library),
        other => Err(Error::new_spanned(other, "a service consists of methods only")),
    }
}

/// No two methods have the same name on the network.
fn check_names(methods: &[Method]) -> Result<()> {
    for (place, method) in methods.iter().enumerate() {
        let earlier = methods[..place].iter().find(|other| other.wire_name == method.wire_name);
        let Some(earlier) = earlier else { continue };
        let why = format!(
            "`{}` has the name `{}` on the network already: give this one another with \
             `#[method(name = \"…\")]`",
            earlier.ident, method.wire_name
        );
        let span = method.options.name.as_ref().map_or(method.ident.span(), syn::LitStr::span);
        return Err(Error::new(span, why));
    }
    Ok(())
}
