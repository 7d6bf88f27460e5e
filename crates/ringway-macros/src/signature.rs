//! Parameters and return type of a method, read from its signature.

use syn::{
    Error, FnArg, GenericArgument, Ident, Pat, Path, PathArguments, PathSegment, Receiver, Result,
    ReturnType, Signature, Type, parse_quote,
};

/// The kind of a method, and its messages.
pub(crate) struct Shape {
    pub(crate) takes_context: bool,
    /// `()` where the method takes none.
    pub(crate) input: Type,
    pub(crate) takes_request: bool,
    /// The trait's name for the request, for the documentation of the client.
    pub(crate) input_name: Ident,
    pub(crate) streams_in: bool,
    pub(crate) output: Type,
    pub(crate) streams_out: bool,
}

/// An argument by the name of its type.
enum Argument<'a> {
    Context,
    Streaming(&'a Type),
    Sink(&'a Type),
    Message(&'a Type),
}

/// Reads a signature, in which `Context`, `Sink` and `Streaming` are those of `library`.
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
    let (input, streams_in, sink) = arrange(rest)?;
    let reply = reply(signature, library)?;
    let (output, streams_out) = match sink {
        Some(_) if !is_unit(reply) => {
            let why = "a method with a `Sink` returns `Result<(), Status>`: its replies go into \
                       the sink";
            return Err(Error::new_spanned(reply, why));
        }
        Some(message) => (message, true),
        None => (reply, false),
    };
    Ok(Shape {
        takes_context,
        input_name: name_of(signature, input),
        input: input.cloned().unwrap_or_else(|| parse_quote!(())),
        takes_request: input.is_some(),
        streams_in,
        output: output.clone(),
        streams_out,
    })
}

const CONTEXT_ALONE: &str = "this is the context of the call, and a request follows it, `()` if there is \
                             nothing to say; a message of that name is written `self::Context`";
const NO_SELF: &str = "a method of a service takes `&self` first";

fn check_form(signature: &Signature) -> Result<()> {
    if signature.asyncness.is_none() {
        let why = "a method of a service is `async`: write `async fn`";
        return Err(Error::new_spanned(signature.fn_token, why));
    }
    if !signature.generics.params.is_empty() {
        let why = "a method of a service has no generic parameters: the client has to know which \
                   messages to send";
        return Err(Error::new_spanned(&signature.generics, why));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(Error::new_spanned(clause, "a method of a service has no `where` clause"));
    }
    if let Some(token) = &signature.unsafety {
        return Err(Error::new_spanned(token, "a method of a service is not `unsafe`"));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(abi, "a method of a service is an ordinary `async fn`"));
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
            let why = "a method of a service takes `&self`: its calls run at the same time";
            Err(Error::new_spanned(receiver, why))
        }
    }
}

/// The request, whether it is a stream, and the message of the sink.
fn arrange<'a>(
    arguments: &'a [(Argument<'a>, &'a Type)],
) -> Result<(Option<&'a Type>, bool, Option<&'a Type>)> {
    use Argument::{Context, Message, Sink, Streaming};
    let fail = |ty: &Type, why: &str| Err(Error::new_spanned(ty, why));
    match arguments {
        [] => Ok((None, false, None)),
        [(Sink(replies), _)] => Ok((None, false, Some(replies))),
        [(Message(message), _)] => Ok((Some(message), false, None)),
        [(Streaming(message), _)] => Ok((Some(message), true, None)),
        [(Message(message), _), (Sink(replies), _)] => Ok((Some(message), false, Some(replies))),
        [(Streaming(message), _), (Sink(replies), _)] => Ok((Some(message), true, Some(replies))),
        [(Sink(_), _), (Sink(_), second), ..] | [_, (Sink(_), _), (Sink(_), second), ..] => {
            fail(second, "a method has one `Sink`: put different replies into an enum")
        }
        [(Sink(_), sink), ..] => fail(sink, "the `Sink` comes last, after the request"),
        [_, (Streaming(_), second), ..] => fail(second, "a method has one request or one stream"),
        [_, (Sink(_), _), (_, extra), ..] => fail(extra, "the `Sink` comes last"),
        [(Context, context), ..] | [_, (Context, context), ..] => {
            let why = "the `Context` comes first, once, right after `&self`; a message of that \
                       name is written `self::Context`";
            fail(context, why)
        }
        [_, (Message(_), second), ..] => {
            fail(second, "a method takes one request: put several values into one struct")
        }
    }
}

/// The name of the argument of this type, unless it says that nobody will use it.
fn name_of(signature: &Signature, input: Option<&Type>) -> Ident {
    let is_input = |ty: &Type| input.is_some_and(|input| std::ptr::eq(ty, input));
    let named = signature.inputs.iter().find_map(|argument| match argument {
        FnArg::Typed(typed) if is_input(&typed.ty) => match &*typed.pat {
            Pat::Ident(name) if !name.ident.to_string().starts_with('_') => Some(&name.ident),
            _ => None,
        },
        _ => None,
    });
    named.cloned().unwrap_or_else(|| Ident::new("request", signature.ident.span()))
}

fn classify<'a>(ty: &'a Type, library: &Path) -> Result<Argument<'a>> {
    match ty {
        Type::Reference(_) => {
            let why = "messages cross the network: take this by value";
            return Err(Error::new_spanned(ty, why));
        }
        Type::ImplTrait(_) => {
            let why = "name a type: the client has to know which messages to send";
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
            let why = format!("say of which messages: `{}<T>`", segment.ident);
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
            _ => return Err(Error::new_spanned(error, "the error is `Status`")),
        },
        _ => return wrong(returned),
    };
    match library_segment(reply, library) {
        Some(segment) if segment.ident == "Streaming" || segment.ident == "Sink" => {
            let why = "to answer with a stream, take a `Sink<T>` as the last argument and return \
                       `Result<(), Status>`";
            Err(Error::new_spanned(reply, why))
        }
        _ => match reply {
            Type::Reference(_) => {
                Err(Error::new_spanned(reply, "messages cross the network: return this by value"))
            }
            _ => Ok(reply),
        },
    }
}

const RETURNS: &str = "a method of a service returns `Result<Reply, Status>`";

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

/// The end of a path that may lead to the library. `self::Context`, `super::Context` and
/// `::messages::Context` do not, unless the library is there: so a message can have such a name.
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
                "say of which messages: `Streaming<T>`",
            ),
            (
                parse_quote!(
                    async fn m(&self, request: A, replies: Sink<B, C>) -> Result<(), Status>;
                ),
                "say of which messages: `Sink<T>`",
            ),
        ] {
            let function: TraitItemFn = function;
            let error =
                read(&function.sig, &parse_quote!(ringway_rpc)).err().expect("it says not of what");
            assert_eq!(error.to_string(), expected);
        }
    }
}
