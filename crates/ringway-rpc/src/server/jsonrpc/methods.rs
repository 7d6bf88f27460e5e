//! The methods of a core by the names that JSON-RPC calls them, and the forms of their messages.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use ringway_wire::jsonrpc::Params;

use super::discover::{self, OWN_SERVICE, Schemas};
use super::params;
use crate::call::codec;
use crate::call::json_shape::Shape;
use crate::call::method::{Kind, Method};
use crate::call::status::Status;
use crate::server::json_forms::JsonForms;
use crate::service::{Registered, ServiceDescriptor};

/// The methods of one core.
#[derive(Debug, Default)]
pub(crate) struct JsonMethods {
    methods: Vec<JsonMethod>,
    /// The index of each name; `None` for one that several methods could have.
    names: HashMap<Box<str>, Option<u32>>,
    /// The schemas of each method.
    schemas: Arc<[Schemas]>,
    /// The answer to `rpc.discover`, written when it is first asked for.
    document: OnceCell<Bytes>,
}

/// A method, and how its messages become JSON.
#[derive(Debug)]
pub(super) struct JsonMethod {
    method: &'static Method,
    /// What a request is as JSON, if its own type reads it.
    shape: Option<Shape>,
    /// A reply's own type writes it as JSON.
    writes_json: bool,
    /// The forms by descriptors, for messages whose own type knows no JSON.
    described: OnceCell<JsonForms>,
    of_codec: [(u8, &'static str); 2],
    service: Option<&'static ServiceDescriptor>,
}

impl JsonMethods {
    /// For the methods of a core with their schemas, and with the services that they belong to.
    pub(crate) fn new<'a>(
        registered: &[Registered],
        schemas: Arc<[Schemas]>,
        service_of: impl Fn(&str) -> Option<&'a ServiceDescriptor>,
    ) -> Self
    where
        'a: 'static,
    {
        let mut all = Self { schemas, ..Self::default() };
        for (index, entry) in registered.iter().enumerate() {
            all.name(index as u32, entry.method);
            all.methods.push(JsonMethod {
                method: entry.method,
                shape: entry.json_in,
                writes_json: entry.json_out,
                described: OnceCell::new(),
                of_codec: [
                    (entry.codec_in, entry.message_in),
                    (entry.codec_out, entry.message_out),
                ],
                service: service_of(entry.method.service()),
            });
        }
        all
    }

    /// The index of the method with this name.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied().flatten()
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &JsonMethod {
        &self.methods[index as usize]
    }

    /// All methods with their schemas, in the order of their registration.
    pub(super) fn all(&self) -> impl Iterator<Item = (&JsonMethod, &Schemas)> {
        self.methods.iter().zip(self.schemas.iter())
    }

    /// The methods as a document of OpenRPC.
    pub(super) fn document(&self) -> Bytes {
        self.document.get_or_init(|| discover::document(self).into()).clone()
    }

    /// Bytes of a method's reply, where that is known before the call and long: it counts as the request does, so that a
    /// batch of short ones is bounded.
    pub(super) fn known_reply_len(&self, index: u32) -> usize {
        match self.get(index).service() {
            OWN_SERVICE => self.document().len(),
            _ => 0,
        }
    }

    /// Takes in all names of a method. Its full name is its own; a shorter one is unless another method of the
    /// same server has it.
    fn name(&mut self, index: u32, method: &'static Method) {
        let (service, short) = (method.service(), method.short_name());
        self.names.insert(method.name().into(), Some(index));
        let mut others = vec![format!("{service}.{short}")];
        if let Some((_, service)) = service.rsplit_once('.') {
            others.extend([format!("{service}/{short}"), format!("{service}.{short}")]);
        }
        // What every server has is not to take plain names from what this one is for.
        if !is_own(service) {
            let (lower, snake) = (lower_camel_case(short), snake_case(short));
            others.push(short.to_owned());
            others.extend((snake != lower).then_some(snake));
            others.extend((lower != short).then_some(lower));
        }
        for name in others {
            let known = self.names.get(&*name).copied();
            let is_free = known.is_none();
            let is_shared = known.flatten().is_some_and(|other| {
                other != index && self.get(other).name() != name // its full name stays its own
            });
            if is_free || is_shared {
                self.names.insert(name.into(), is_free.then_some(index));
            }
        }
    }
}

impl JsonMethod {
    #[inline]
    pub(super) fn kind(&self) -> Kind {
        self.method.kind()
    }

    pub(super) fn name(&self) -> &'static str {
        self.method.name()
    }

    /// The name of its service.
    pub(super) fn service(&self) -> &'static str {
        self.method.service()
    }

    /// The name of its argument, if it takes one.
    pub(super) fn parameter(&self) -> Option<&'static str> {
        self.method.parameters.first().copied()
    }

    /// What a request is as JSON, if its own type reads it.
    pub(super) fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// The message that the parameters of a call are, if its own type reads that.
    #[inline]
    pub(super) fn direct<'a>(&self, given: Params<'a>) -> Option<Cow<'a, str>> {
        params::message(self.shape?, self.method.parameters, given)
    }

    /// The message that the parameters of a call are, or the parameters themselves if that takes a
    /// [translation](Self::translates).
    ///
    /// # Errors
    /// INVALID_ARGUMENT when they are not those of the method.
    pub(super) fn message(&self, given: Params<'_>) -> Result<Bytes, Status> {
        if self.translates() {
            return Ok(Bytes::copy_from_slice(given.json().unwrap_or_default().as_bytes()));
        }
        let message = self.direct(given).ok_or_else(wrong)?;
        Ok(Bytes::from(message.into_owned()))
    }

    /// Whether a handler reads another form of messages than JSON.
    pub(super) fn translates(&self) -> bool {
        self.shape.is_none()
    }

    /// The message that parameters are.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when they are not those of the method.
    pub(super) fn translate(&self, given: &[u8]) -> Result<Bytes, Status> {
        let given = str::from_utf8(given).map_err(|_| wrong())?;
        let given = match given.as_bytes().first() {
            None => Params::Absent,
            Some(b'[') => Params::Positional(given),
            Some(_) => Params::Named(given),
        };
        let described = self.described();
        let fields = described.request_fields();
        let message = params::by_fields(&fields, given).ok_or_else(wrong)?;
        described.request(Bytes::from(message.into_owned()))
    }

    /// Whether a reply is JSON as the handler wrote it.
    #[inline]
    pub(super) fn writes_json(&self) -> bool {
        self.writes_json
    }

    /// A handler's reply as JSON.
    ///
    /// # Errors
    /// When nothing is known of its form.
    pub(super) fn reply(&self, reply: Bytes) -> Result<Bytes, Status> {
        if self.writes_json {
            return Ok(reply);
        }
        match self.described().reply(reply)? {
            (json, codec::JSON) => Ok(json),
            (bytes, _) => {
                let mut json = Vec::new();
                crate::call::json::put_bytes(&bytes, &mut json);
                Ok(json.into())
            }
        }
    }

    pub(super) fn described(&self) -> &JsonForms {
        let [request, reply] = self.of_codec;
        self.described.get_or_init(|| JsonForms::of(self.method, request, reply, self.service))
    }
}

/// Whether a service is one that every server has.
pub(super) fn is_own(service: &str) -> bool {
    service == OWN_SERVICE || ["grpc.", "ringway."].iter().any(|own| service.starts_with(own))
}

fn wrong() -> Status {
    Status::invalid_argument("the method does not take these parameters")
}

/// `PlaceOrder` as it is written where names begin with a small letter.
fn lower_camel_case(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

/// `PlaceOrder` as functions are written.
fn snake_case(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    static GET: Method = Method::new("a.v1.Users/GetUser", Kind::Unary);
    static PUT: Method = Method::new("a.v1.Users/Put", Kind::Unary);
    static OTHER: Method = Method::new("b.Users/Put", Kind::Unary);
    static ALONE: Method = Method::new("Plain/Put", Kind::Unary);
    static CHECK: Method = Method::new("grpc.health.v1.Health/Check", Kind::Unary);

    fn methods(all: &[&'static Method]) -> JsonMethods {
        let mut methods = JsonMethods::default();
        for (index, method) in all.iter().enumerate() {
            methods.name(index as u32, method);
            methods.methods.push(JsonMethod {
                method,
                shape: None,
                writes_json: false,
                described: OnceCell::new(),
                of_codec: [(0, ""); 2],
                service: None,
            });
        }
        methods
    }

    #[test]
    fn a_method_has_several_names() {
        let methods = methods(&[&GET, &PUT, &CHECK]);
        for name in [
            "a.v1.Users/GetUser",
            "a.v1.Users.GetUser",
            "Users.GetUser",
            "Users/GetUser",
            "GetUser",
            "getUser",
            "get_user",
        ] {
            assert_eq!(methods.find(name), Some(0), "{name}");
        }
        for name in ["Put", "put", "Users.Put"] {
            assert_eq!(methods.find(name), Some(1), "{name}");
        }
        for name in ["", "/", "users.put", "Check", "check", "GETUSER"] {
            assert_eq!(methods.find(name), None, "{name}");
        }
        assert_eq!(methods.find("Health.Check"), Some(2));
    }

    #[test]
    fn a_full_name_is_not_taken_by_a_service_of_some_package() {
        static PACKAGELESS: Method = Method::new("Users/Put", Kind::Unary);
        for all in [
            [&PACKAGELESS, &OTHER, &PUT],
            [&OTHER, &PACKAGELESS, &PUT],
            [&OTHER, &PUT, &PACKAGELESS],
        ] {
            let methods = methods(&all);
            for (at, method) in all.iter().enumerate() {
                assert_eq!(methods.find(method.name()), Some(at as u32), "{}", method.name());
            }
            assert_eq!(methods.find("Put"), None);
        }
    }

    #[test]
    fn a_name_that_several_have_is_nobodys() {
        let methods = methods(&[&PUT, &OTHER, &ALONE]);
        for name in ["Put", "put", "Users.Put", "Users/Put"] {
            assert_eq!(methods.find(name), None, "{name}");
        }
        for (name, index) in
            [("a.v1.Users.Put", 0), ("b.Users.Put", 1), ("Plain/Put", 2), ("Plain.Put", 2)]
        {
            assert_eq!(methods.find(name), Some(index), "{name}");
        }
    }
}
