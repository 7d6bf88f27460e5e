//! The client's side: `MarketClient`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::method::Method;
use crate::service::Service;

/// The client's type.
pub(crate) fn type_of(service: &Service) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let name = &service.client_name;
    let summary = format!("Calls the methods of [`{}`] on a server.", service.item.ident);
    let deprecated = service.deprecated();
    quote! {
        #[doc = #summary]
        #[doc = ""]
        #[doc = "Clones share the client, and may be used from any thread."]
        #deprecated
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #[allow(dead_code)]
        #visibility struct #name {
            client: #library::Client,
        }
    }
}

/// The client's constructors and methods.
pub(crate) fn implementation(service: &Service) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let name = &service.client_name;
    let connect = connect(service);
    let methods =
        service.methods.iter().enumerate().map(|(place, method)| call(service, place, method));
    quote! {
        #[allow(dead_code)]
        impl #name {
            /// Makes calls over `client`.
            #visibility fn new(client: #library::Client) -> Self {
                Self { client }
            }

            #connect

            /// Returns the same client with these options as the defaults of its calls, in place of the present ones.
            #[must_use]
            #visibility fn with(&self, options: #library::CallOptions) -> Self {
                Self { client: self.client.with(options) }
            }

            #(#methods)*
        }
    }
}

/// The constructor that takes addresses, unless a method of the service has its name.
fn connect(service: &Service) -> Option<TokenStream> {
    let is_taken = service.methods.iter().any(|method| method.ident == "connect");
    let (library, visibility) = (&service.library, &service.item.vis);
    let constructor = quote! {
        /// Makes a client of the servers at one or several addresses. It connects when the first call
        /// is made.
        ///
        /// # Errors
        /// Fails with INVALID_ARGUMENT when an address is malformed or none is given.
        #visibility fn connect(
            addresses: impl #library::ToServerAddresses,
        ) -> ::core::result::Result<Self, #library::Status> {
            ::core::result::Result::Ok(Self::new(#library::Client::connect(addresses)?))
        }
    };
    (!is_taken).then_some(constructor)
}

/// The client's function for a method.
fn call(service: &Service, place: usize, method: &Method) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let (input, _) = method.input(library, place);
    let (input, output) = (&input, &method.shape.output);
    let (codec_in, codec_out) = (service.codec_of(input), service.codec_of(output));
    let (function, docs, deprecated) = (&method.ident, &method.docs, &method.deprecated);
    let summary = method.docs.is_empty().then(|| {
        let summary = format!("Calls `{}/{}`.", service.wire_name, method.wire_name);
        quote!(#[doc = #summary])
    });
    let returned = match (method.shape.streams_in, method.shape.streams_out) {
        (false, false) => quote!(#library::Call<#output>),
        (true, false) => quote!((#library::Sink<#input>, #library::Call<#output>)),
        (false, true) => quote!(#library::Streaming<#output>),
        (true, true) => quote!((#library::Sink<#input>, #library::Streaming<#output>)),
    };
    let names: Vec<_> = method.shape.values.iter().map(|value| &value.name).collect();
    let (parameters, argument) = match (method.shape.streams_in, &names[..]) {
        (true, _) => (None, None),
        (false, [name]) => (Some(quote!(, #name: #input)), Some(quote!(, #name))),
        (false, []) => (None, Some(quote!(, ()))),
        (false, names) => {
            let types = method.shape.values.iter().map(|value| &value.ty);
            let parameters = quote!(#(, #names: #types)*);
            (Some(parameters), Some(quote!(, #library::Arguments::new((#(#names,)*)))))
        }
    };
    let kind = method.kind_function();
    quote! {
        #(#docs)*
        #summary
        #deprecated
        #visibility fn #function(&self #parameters) -> #returned {
            self.client.#kind(&__METHODS[#place], #codec_in, #codec_out #argument)
        }
    }
}
