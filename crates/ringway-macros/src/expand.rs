//! Expands the trait into the generated code.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Error, Item, ItemTrait, Result, TraitItem};

use crate::options::MethodOptions;
use crate::service::Service;
use crate::{client, server};

/// Expands the attribute. After an error the trait is still emitted, so that code which uses it does not
/// fail as well.
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
        Ok(service) => generate(&service),
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
            let why =
                "`#[service]` belongs on a trait, whose methods become the methods of the service";
            Err(Error::new_spanned(first_tokens(&other), why))
        }
    }
}

/// The first tokens of an item, which are enough to show where it is.
fn first_tokens(item: &Item) -> TokenStream {
    item.to_token_stream().into_iter().take(2).collect()
}

/// Removes the attributes that only this macro knows, whether they are right or wrong.
fn strip(item: &mut ItemTrait) {
    for member in &mut item.items {
        if let TraitItem::Fn(function) = member {
            _ = MethodOptions::take(&mut function.attrs);
        }
    }
}

fn generate(service: &Service) -> TokenStream {
    let item = &service.item;
    let library = &service.library;
    let wire_name = &service.wire_name;
    let count = service.methods.len();
    let methods = service.methods.iter().map(|method| method.descriptor(library, wire_name));
    let descriptors = match &service.descriptors {
        Some(descriptors) => quote!(::core::option::Option::Some(#descriptors)),
        None => quote!(::core::option::Option::None),
    };
    let shadows = shadows(service);
    let names = service.methods.iter().enumerate().filter_map(|(place, method)| {
        let (_, name) = method.input(library, place);
        let (name, parameters) = (name?, method.parameters());
        Some(quote! {
            struct #name;
            impl #library::ArgumentNames for #name {
                const NAMES: &'static [&'static str] = &[#(#parameters),*];
            }
        })
    });
    let server_type = server::type_of(service);
    let client_type = client::type_of(service);
    let server = server::implementation(service);
    let client = client::implementation(service);
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
            #(#names)*
            #server
            #client
        };
    }
}

/// Functions with the names of all parameters. A user's constant with such a name would turn the parameter into a
/// pattern, so a function of that name hides it.
fn shadows(service: &Service) -> Vec<TokenStream> {
    let own = PARAMETERS.map(|name| Ident::new(name, Span::call_site()));
    let values = service.methods.iter().flat_map(|method| &method.shape.values);
    let mut names: Vec<Ident> = own.into_iter().collect();
    for name in values.map(|value| &value.name) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names.iter().map(|name| quote!(#[allow(dead_code, non_snake_case)] fn #name() {})).collect()
}

/// The parameter names of generated functions, which are chosen for readers of the documentation.
const PARAMETERS: [&str; 7] =
    ["service", "make", "client", "options", "request", "interceptor", "addresses"];
