//! Reads the parameters and the return type of a method.

use quote::format_ident;
use syn::{
    Error, FnArg, GenericArgument, Ident, Pat, Path, PathArguments, PathSegment, Receiver, Result,
    ReturnType, Signature, Type, parse_quote,
};

/// The kind and the messages of a method.
pub(crate) struct Shape {
    pub(crate) takes_context: bool,
    /// The message: `()` where the method takes none, and not used where it takes several values.
    pub(crate) input: Type,
    /// The values that the request consists of: none, one, or several.
    pub(crate) values: Vec<Value>,
    pub(crate) streams_in: bool,
    pub(crate) output: Type,
    pub(crate) streams_out: bool,
}

/// A value of the request, with the trait's name for it, which the documentation of the client shows.
pub(crate) struct Value {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
}

/// What a method takes besides its context.
struct Arranged<'a> {
    requests: Vec<&'a Type>,
    streams_in: bool,
    sink: Option<&'a Type>,
}

/// An argument, classified by the name of its type.
enum Argument<'a> {
    Context,
    Streaming(&'a Type),
    Sink(&'a Type),
    Message(&'a Type),
}

/// Reads a signature. `Context`, `Sink` and `Streaming` are the types of `library`.
///
/// # Errors
/// The error says what is wrong and what to do instead, at the offending tokens.
pub(crate) fn read(signature: &Signature, library: &Path) -> Result<Shape> {
    check_form(signature)?;
    let mut arguments = signature.inputs.iter().map(|argument| match argument {
        FnArg::Receiver(receiver) => check_receiver(receiver).map(|()| None),
        FnArg::Typed(typed) => classify(&typed.ty, library).map(|kind| Some((kind, &*typed.ty))),
    });
    match arguments.next() {
        Some(Ok(None)) => {}
        Some(Err(error)) => return Err(error),
        Some(Ok(Some((_, ty)))) => return Err(Error::new_spanned(ty, NO_SELF)),
        None => return Err(Error::new_spanned(&signature.ident, NO_SELF)),
    }
    let rest = arguments.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
    let (takes_context, rest) = match &*rest {
        [(Argument::Context, context)] | [(Argument::Context, context), (Argument::Sink(_), _)] => {
            return Err(Error::new_spanned(context, CONTEXT_ALONE));
        }
        [(Argument::Context, _), rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let Arranged { requests, streams_in, sink } = arrange(rest)?;
    let reply = reply(signature, library)?;
    let (output, streams_out) = match sink {
        Some(_) if !is_unit(reply) => {
            let why = "a method with a `Sink` must return `Result<(), Status>`: it sends its replies \
                       through the sink";
            return Err(Error::new_spanned(reply, why));
        }
        Some(message) => (message, true),
        None => (reply, false),
    };
    Ok(Shape {
        takes_context,
        input: match &requests[..] {
            [request] => (*request).clone(),
            several => parse_quote!((#(#several),*)),
        },
        values: values_of(signature, &requests),
        streams_in,
        output: output.clone(),
        streams_out,
    })
}

const CONTEXT_ALONE: &str = "a method with a `Context` needs a request after it, `()` if there is none; for \
                             a message of your own with that name, write `self::Context`";
const NO_SELF: &str = "the first argument of a service method must be `&self`";

fn check_form(signature: &Signature) -> Result<()> {
    if signature.asyncness.is_none() {
        let why = "a service method must be an `async fn`";
        return Err(Error::new_spanned(signature.fn_token, why));
    }
    if !signature.generics.params.is_empty() {
        let why = "a service method cannot have generic parameters: the types of its messages must be \
                   known";
        return Err(Error::new_spanned(&signature.generics, why));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(Error::new_spanned(clause, "a service method cannot have a `where` clause"));
    }
    if let Some(token) = &signature.unsafety {
        return Err(Error::new_spanned(token, "a service method cannot be `unsafe`"));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(abi, "a service method cannot be `extern`"));
    }
    Ok(())
}

fn check_receiver(receiver: &Receiver) -> Result<()> {
    let plain = receiver.colon_token.is_none()
        && receiver.mutability.is_none()
        && receiver.reference.as_ref().is_some_and(|(_, lifetime)| lifetime.is_none());
    match plain {
        true => Ok(()),
        false => {
            let why =
                "a service method must take `&self`, because several calls run at the same time";
            Err(Error::new_spanned(receiver, why))
        }
    }
}

/// Sorts the arguments behind the context: the request or its values or its stream, then the sink.
fn arrange<'a>(arguments: &[(Argument<'a>, &'a Type)]) -> Result<Arranged<'a>> {
    let (sink, rest) = match arguments {
        [rest @ .., (Argument::Sink(replies), _)] => (Some(*replies), rest),
        rest => (None, rest),
    };
    if let [(Argument::Streaming(message), _)] = rest {
        return Ok(Arranged { requests: vec![message], streams_in: true, sink });
    }
    let requests = rest.iter().map(|(argument, ty)| match argument {
        Argument::Message(message) => Ok(*message),
        Argument::Sink(_) if sink.is_some() => Err(Error::new_spanned(ty, ONE_SINK)),
        Argument::Sink(_) => Err(Error::new_spanned(ty, "the `Sink` must be the last argument")),
        Argument::Streaming(_) => Err(Error::new_spanned(ty, ONE_STREAM)),
        Argument::Context => Err(Error::new_spanned(ty, CONTEXT_FIRST)),
    });
    Ok(Arranged { requests: requests.collect::<Result<_>>()?, streams_in: false, sink })
}

const ONE_SINK: &str = "a method can have only one `Sink`: use an enum for different replies";
const ONE_STREAM: &str = "a request is either one stream or plain values";
const CONTEXT_FIRST: &str = "the `Context` must be the first argument after `&self`; for a message of \
                             your own with that name, write `self::Context`";

/// The values of the request, named as the trait names them.
fn values_of(signature: &Signature, requests: &[&Type]) -> Vec<Value> {
    let several = requests.len() > 1;
    let is_taken = |name: &Ident| {
        requests.iter().filter_map(|ty| name_of(signature, ty)).any(|taken| taken == *name)
    };
    let unnamed = |place| {
        let text = if several { format!("value_{place}") } else { "request".to_owned() };
        let mut name = Ident::new(&text, signature.ident.span());
        while is_taken(&name) {
            name = format_ident!("{name}_");
        }
        name
    };
    let value = |(place, ty): (usize, &&Type)| {
        let name = name_of(signature, ty).unwrap_or_else(|| unnamed(place));
        Value { name, ty: (*ty).clone() }
    };
    requests.iter().enumerate().map(value).collect()
}

/// The name of the argument of this type, unless it begins with `_`.
fn name_of(signature: &Signature, value: &Type) -> Option<Ident> {
    signature.inputs.iter().find_map(|argument| match argument {
        FnArg::Typed(typed) if std::ptr::eq(&*typed.ty, value) => match &*typed.pat {
            Pat::Ident(name) if !name.ident.to_string().starts_with('_') => {
                Some(name.ident.clone())
            }
            _ => None,
        },
        _ => None,
    })
}

fn classify<'a>(ty: &'a Type, library: &Path) -> Result<Argument<'a>> {
    match ty {
        Type::Reference(_) => {
            let why =
                "a message cannot be a reference, because it crosses the network: take it by value";
            return Err(Error::new_spanned(ty, why));
        }
        Type::ImplTrait(_) => {
            let why = "a message cannot be an `impl Trait`: name its type";
            return Err(Error::new_spanned(ty, why));
        }
        _ => {}
    }
    let Some(segment) = library_segment(ty, library) else { return Ok(Argument::Message(ty)) };
    match &*segment.ident.to_string() {
        "Context" if segment.arguments.is_none() => Ok(Argument::Context),
        "Streaming" => Ok(Argument::Streaming(message_of(segment)?)),
        "Sink" => Ok(Argument::Sink(message_of(segment)?)),
        _ => Ok(Argument::Message(ty)),
    }
}

/// `T` of `Streaming<T>` or `Sink<T>`.
fn message_of(segment: &PathSegment) -> Result<&Type> {
    match &*types_of(segment) {
        [message] => Ok(message),
        _ => {
            let why = format!("the type of the messages is missing: write `{}<T>`", segment.ident);
            Err(Error::new_spanned(segment, why))
        }
    }
}

/// `R` of the `Result<R, Status>` that is returned.
fn reply<'a>(signature: &'a Signature, library: &Path) -> Result<&'a Type> {
    let ReturnType::Type(_, returned) = &signature.output else {
        return Err(Error::new_spanned(&signature.ident, RETURNS));
    };
    let wrong = |what: &dyn quote::ToTokens| Err(Error::new_spanned(what, RETURNS));
    let Some(segment) = last_segment(returned) else { return wrong(returned) };
    if segment.ident != "Result" {
        return wrong(returned);
    }
    let reply = match &*types_of(segment) {
        [reply] => *reply, // an alias with the error inside
        [reply, error] => match last_segment(error) {
            Some(error) if error.ident == "Status" => *reply,
            _ => {
                return Err(Error::new_spanned(
                    error,
                    "the error type of a service method must be `Status`",
                ));
            }
        },
        _ => return wrong(returned),
    };
    match library_segment(reply, library) {
        Some(segment) if segment.ident == "Streaming" || segment.ident == "Sink" => {
            let why = "to reply with a stream, take a `Sink<T>` as the last argument and return \
                       `Result<(), Status>`";
            Err(Error::new_spanned(reply, why))
        }
        _ => match reply {
            Type::Reference(_) => Err(Error::new_spanned(
                reply,
                "a message cannot be a reference, because it crosses the network: return it by value",
            )),
            _ => Ok(reply),
        },
    }
}

const RETURNS: &str = "a service method must return `Result<Reply, Status>`";

fn path_of(ty: &Type) -> Option<&Path> {
    match ty {
        Type::Path(path) if path.qself.is_none() => Some(&path.path),
        Type::Paren(inner) => path_of(&inner.elem),
        Type::Group(inner) => path_of(&inner.elem),
        _ => None,
    }
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    path_of(ty)?.segments.last()
}

/// The last segment of a path, if the path may lead to the library. `self::Context`, `super::Context` and
/// `::messages::Context` do not, unless the library is there, so a message can have such a name.
fn library_segment<'a>(ty: &'a Type, library: &Path) -> Option<&'a PathSegment> {
    let path = path_of(ty)?;
    let starts_with = |name: &str| path.segments[0].ident == name;
    let is_absolute = path.leading_colon.is_some() || starts_with("self") || starts_with("super");
    let place = path.segments.iter().take(path.segments.len() - 1).map(|segment| &segment.ident);
    let is_there = place.eq(library.segments.iter().map(|segment| &segment.ident));
    (is_there || !is_absolute).then(|| path.segments.last()).flatten()
}

fn types_of(segment: &PathSegment) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return Vec::new() };
    let types = arguments.args.iter().map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect::<Option<_>>().unwrap_or_default()
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use syn::TraitItemFn;

    use super::*;

    fn text(ty: &Type) -> String {
        ty.to_token_stream().to_string()
    }

    #[track_caller]
    fn check(function: &TraitItemFn, input: (&str, bool), output: (&str, bool)) {
        let shape = read(&function.sig, &parse_quote!(::ringway::rpc))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&*text(&shape.input), shape.streams_in), input);
        assert_eq!((&*text(&shape.output), shape.streams_out), output);
    }

    #[test]
    fn the_signature_says_the_kind() {
        check(
            &parse_quote!(
                async fn m(&self, request: A) -> Result<B, Status>;
            ),
            ("A", false),
            ("B", false),
        );
        check(
            &parse_quote!(
                async fn m(
                    &self,
                    context: rpc::Context,
                    requests: rpc::Streaming<A>,
                ) -> io::Result<B, rpc::Status>;
            ),
            ("A", true),
            ("B", false),
        );
        check(
            &parse_quote!(
                async fn m(&self, request: (), replies: Sink<Vec<u8>>) -> Result<(), Status>;
            ),
            ("()", false),
            ("Vec < u8 >", true),
        );
        check(
            &parse_quote!(
                async fn m(&self, _: Streaming<A>, _: Sink<B>) -> Result<()>;
            ),
            ("A", true),
            ("B", true),
        );
    }

    #[test]
    fn several_values_are_one_tuple() {
        check(
            &parse_quote!(
                async fn m(&self, context: Context, a: A, b: B) -> Result<C, Status>;
            ),
            ("(A , B)", false),
            ("C", false),
        );
        check(
            &parse_quote!(
                async fn m(&self, a: A, b: B, replies: Sink<C>) -> Result<(), Status>;
            ),
            ("(A , B)", false),
            ("C", true),
        );
    }

    #[test]
    fn messages_may_have_the_names_of_ours() {
        check(
            &parse_quote!(
                async fn m(
                    &self,
                    context: Context,
                    request: self::Context,
                ) -> Result<::messages::Streaming, Status>;
            ),
            ("self :: Context", false),
            (":: messages :: Streaming", false),
        );
        check(
            &parse_quote!(
                async fn m(
                    &self,
                    requests: ::ringway::rpc::Streaming<super::v1::Sink>,
                    replies: rpc::Sink<self::Streaming>,
                ) -> Result<(), Status>;
            ),
            ("super :: v1 :: Sink", true),
            ("self :: Streaming", true),
        );
    }

    #[test]
    fn streams_are_of_one_message() {
        for (function, expected) in [
            (
                parse_quote!(
                    async fn m(&self, requests: Streaming) -> Result<B, Status>;
                ),
                "the type of the messages is missing: write `Streaming<T>`",
            ),
            (
                parse_quote!(
                    async fn m(&self, request: A, replies: Sink<B, C>) -> Result<(), Status>;
                ),
                "the type of the messages is missing: write `Sink<T>`",
            ),
        ] {
            let function: TraitItemFn = function;
            let error =
                read(&function.sig, &parse_quote!(ringway_rpc)).err().expect("it says not of what");
            assert_eq!(error.to_string(), expected);
        }
    }
}
