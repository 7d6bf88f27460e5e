//! The server's side: `MarketServer<T>`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::method::Method;
use crate::service::Service;

/// The type.
pub(crate) fn type_of(service: &Service) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let name = service.derived_name("Server");
    let summary = format!("Serves an implementation of [`{}`].", service.item.ident);
    quote! {
        #[doc = #summary]
        #[allow(dead_code)]
        #visibility struct #name<T> {
            provider: #library::Provider<T>,
        }
    }
}

/// Its constructors, and what a server needs of it.
pub(crate) fn implementation(service: &Service) -> TokenStream {
    let (library, visibility) = (&service.library, &service.item.vis);
    let name = service.derived_name("Server");
    let ident = &service.item.ident;
    let in_place = service.methods.iter().any(|method| method.options.offload.is_none());
    let instance =
        in_place.then(|| quote!(let service = ::std::rc::Rc::new(self.provider.instance());));
    let registrations =
        service.methods.iter().enumerate().map(|(place, method)| register(service, place, method));
    quote! {
        #[allow(dead_code)]
        impl<T: #ident + 'static> #name<T> {
            /// All cores of a server share `service`.
            #visibility fn new(service: T) -> Self
            where
                T: ::core::marker::Send + ::core::marker::Sync,
            {
                Self { provider: #library::Provider::shared(service) }
            }

            /// Each core of a server makes an implementation of its own, on its thread.
            #visibility fn per_core(
                make: impl ::core::ops::Fn() -> T
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            ) -> Self {
                Self { provider: #library::Provider::per_core(make) }
            }
        }

        impl<T: #ident + 'static> #library::Service for #name<T> {
            fn descriptor(&self) -> &'static #library::ServiceDescriptor {
                &__SERVICE
            }

            fn register(&self, methods: &mut #library::Methods) {
                let _ = &methods; // a service may have no method
                #instance
                #(#registrations)*
            }
        }
    }
}

/// The statement that adds a method to the table of a core.
fn register(service: &Service, place: usize, method: &Method) -> TokenStream {
    let ident = &service.item.ident;
    let codec_in = service.codec_of(&method.shape.input);
    let codec_out = service.codec_of(&method.shape.output);
    let function = &method.ident;
    let context = method.shape.takes_context.then(|| quote!(context,));
    let context_name = if method.shape.takes_context { quote!(context) } else { quote!(_) };
    let sink = method.shape.streams_out.then(|| quote!(replies,));
    let call = quote!(<T as #ident>::#function(&service, #context request, #sink).await);
    let (add, capture, give) = match method.options.offload {
        None => (
            method.kind_function(),
            quote!(let service = ::std::rc::Rc::clone(&service);),
            quote!(let service = ::std::rc::Rc::clone(&service);),
        ),
        Some(_) => (
            quote!(unary_offloaded),
            quote!(let provider = ::core::clone::Clone::clone(&self.provider);),
            quote!(let service = provider.instance();),
        ),
    };
    quote! {
        methods.#add(
            &__METHODS[#place],
            #codec_in,
            #codec_out,
            {
                #capture
                move |#context_name, request, #sink| {
                    #give
                    async move { #call }
                }
            },
        );
    }
}
