//! The server's side: `MarketServer<T>`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};

use crate::method::Method;
use crate::service::Service;

/// The server's type.
pub(crate) fn type_of(service: &Service) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let name = &service.server_name;
    let summary = format!("Serves an implementation of [`{}`].", service.item.ident);
    let deprecated = service.deprecated();
    quote! {
        #[doc = #summary]
        #deprecated
        #[allow(dead_code)]
        #visibility struct #name<T> {
            provider: #library::Provider<T>,
        }
    }
}

/// The server type's constructors, and its `Service` implementation. Names that could collide with those of
/// the user begin with `__`.
pub(crate) fn implementation(service: &Service) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let name = &service.server_name;
    let ident = &service.item.ident;
    let in_place = service.methods.iter().any(|method| method.options.offload.is_none());
    let instance =
        in_place.then(|| quote!(let __service = ::std::rc::Rc::new(self.provider.instance());));
    // The trait itself may have the name that reads best.
    let kind = format_ident!("{}", if ident == "T" { "__T" } else { "T" });
    let registrations =
        service.methods.iter().enumerate().map(|(place, method)| register(service, place, method));
    quote! {
        #[allow(dead_code)]
        impl<#kind: #ident + 'static> #name<#kind> {
            /// Serves with one implementation, which all cores of a server share.
            #visibility fn new(service: #kind) -> Self
            where
                #kind: ::core::marker::Send + ::core::marker::Sync,
            {
                Self { provider: #library::Provider::shared(service) }
            }

            /// Serves with one implementation for each core, which `make` creates on the core's thread.
            #visibility fn per_core(
                make: impl ::core::ops::Fn() -> #kind
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            ) -> Self {
                Self { provider: #library::Provider::per_core(make) }
            }

            /// Runs `interceptor` around every call of this service only.
            #visibility fn intercept<__F>(self, interceptor: __F) -> #library::Intercepted<Self>
            where
                __F: ::core::ops::AsyncFn(
                        #library::Context,
                        #library::Next,
                    ) -> ::core::result::Result<#library::Reply, #library::Status>
                    + ::core::clone::Clone
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            {
                #library::Intercepted::new(self, interceptor)
            }
        }

        impl<__T: #ident + 'static> #library::Service for #name<__T> {
            fn descriptor(&self) -> &'static #library::ServiceDescriptor {
                &__SERVICE
            }

            fn register(&self, __methods: &mut #library::Methods) {
                let _ = &__methods; // a service may have no method
                #instance
                #(#registrations)*
            }
        }
    }
}

/// The statement that adds a method to a core's table.
fn register(service: &Service, place: usize, method: &Method) -> TokenStream {
    let library = &service.library;
    let ident = &service.item.ident;
    let (input, names) = method.input(library, place);
    let codec_in = service.codec_of(&input);
    let codec_out = service.codec_of(&method.shape.output);
    let function = &method.ident;
    let context = method.shape.takes_context.then(|| quote!(__context,));
    let context_name = if method.shape.takes_context { quote!(__context) } else { quote!(_) };
    let sink = method.shape.streams_out.then(|| quote!(__replies,));
    let values = 0..method.shape.values.len();
    let values: Vec<_> = values.map(|place| format_ident!("__value_{place}")).collect();
    let take_apart = names.map(|_| quote!(let (#(#values,)*) = __request.into_values();));
    let request_name = match &values[..] {
        [] => quote!(()),
        [request] => quote!(#request),
        _ => quote!(__request),
    };
    let call = quote!(<__T as #ident>::#function(&__service, #context #(#values,)* #sink).await);
    let carried_out = match method.options.tokio {
        None => quote!(async move { #call }),
        Some(span) => quote_spanned!(span => #library::__in_tokio!(async move { #call })),
    };
    let (add, capture, give) = match method.options.offload {
        None => (
            method.kind_function(),
            quote!(let __service = ::core::clone::Clone::clone(&__service);),
            quote!(let __service = ::core::clone::Clone::clone(&__service);),
        ),
        Some(_) => (
            quote!(unary_offloaded),
            quote!(let __provider = ::core::clone::Clone::clone(&self.provider);),
            quote!(let __service = __provider.instance();),
        ),
    };
    quote! {
        __methods.#add(
            &__METHODS[#place],
            #codec_in,
            #codec_out,
            {
                #capture
                move |#context_name, #request_name, #sink| {
                    #give
                    #take_apart
                    #carried_out
                }
            },
        );
    }
}
