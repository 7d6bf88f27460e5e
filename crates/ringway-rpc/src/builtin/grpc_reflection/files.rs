//! Files of descriptors, and what is declared in each.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use prost::Message;

/// The descriptor files of all services, in their serialized form.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<Bytes>,
    by_name: HashMap<String, usize>,
    /// Full names of messages, enums and their values, fields, services, methods and extensions.
    symbols: HashMap<String, usize>,
    /// Extensions, by the full name of the extended message, then by number.
    extensions: HashMap<String, BTreeMap<i32, usize>>,
}

/// `google.protobuf.FileDescriptorSet`; its files stay serialized.
#[derive(Clone, PartialEq, prost::Message)]
struct FileSet {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// The names in a `google.protobuf.FileDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct File {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<MessageType>,
    #[prost(message, repeated, tag = "5")]
    enums: Vec<EnumType>,
    #[prost(message, repeated, tag = "6")]
    services: Vec<ServiceType>,
    #[prost(message, repeated, tag = "7")]
    extensions: Vec<Field>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MessageType {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<MessageType>,
    #[prost(message, repeated, tag = "4")]
    enums: Vec<EnumType>,
    #[prost(message, repeated, tag = "6")]
    extensions: Vec<Field>,
    #[prost(message, repeated, tag = "8")]
    oneofs: Vec<Named>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EnumType {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    values: Vec<Named>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServiceType {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    methods: Vec<Named>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Field {
    #[prost(string, tag = "1")]
    name: String,
    /// The name of the extended message, with a leading dot.
    #[prost(string, tag = "2")]
    extendee: String,
    #[prost(int32, tag = "3")]
    number: i32,
}

impl Files {
    /// Collects the files of several sets. A file in more than one set counts once, and bytes that
    /// are not a descriptor are skipped.
    pub(crate) fn of(sets: impl Iterator<Item = Bytes>) -> Self {
        let mut all = Self::default();
        for set in sets {
            let files = FileSet::decode(set).unwrap_or_default().file;
            for file in files {
                if let Ok(described) = File::decode(file.clone()) {
                    all.add(file, &described);
                }
            }
        }
        all
    }

    fn add(&mut self, file: Bytes, described: &File) {
        if self.by_name.contains_key(&described.name) {
            return;
        }
        let at = self.files.len();
        self.files.push(file);
        self.by_name.insert(described.name.clone(), at);
        let scope = &described.package;
        described.messages.iter().for_each(|message| self.add_message(scope, message, at));
        described.enums.iter().for_each(|each| self.add_enum(scope, each, at));
        described.extensions.iter().for_each(|field| self.add_extension(scope, field, at));
        for service in &described.services {
            let name = self.add_symbol(scope, &service.name, at);
            service.methods.iter().for_each(|method| _ = self.add_symbol(&name, &method.name, at));
        }
    }

    fn add_message(&mut self, scope: &str, message: &MessageType, at: usize) {
        let name = self.add_symbol(scope, &message.name, at);
        message.fields.iter().for_each(|field| _ = self.add_symbol(&name, &field.name, at));
        message.oneofs.iter().for_each(|oneof| _ = self.add_symbol(&name, &oneof.name, at));
        message.nested.iter().for_each(|nested| self.add_message(&name, nested, at));
        message.enums.iter().for_each(|each| self.add_enum(&name, each, at));
        message.extensions.iter().for_each(|field| self.add_extension(&name, field, at));
    }

    /// Adds an enum. Its values belong to the enclosing scope, as in C++.
    fn add_enum(&mut self, scope: &str, each: &EnumType, at: usize) {
        self.add_symbol(scope, &each.name, at);
        each.values.iter().for_each(|value| _ = self.add_symbol(scope, &value.name, at));
    }

    fn add_extension(&mut self, scope: &str, field: &Field, at: usize) {
        self.add_symbol(scope, &field.name, at);
        let extended = field.extendee.trim_start_matches('.').to_owned();
        self.extensions.entry(extended).or_default().insert(field.number, at);
    }

    fn add_symbol(&mut self, scope: &str, name: &str, at: usize) -> String {
        let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        self.symbols.insert(full.clone(), at);
        full
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&Bytes> {
        Some(&self.files[*self.by_name.get(name)?])
    }

    pub(crate) fn of_symbol(&self, name: &str) -> Option<&Bytes> {
        Some(&self.files[*self.symbols.get(name)?])
    }

    pub(crate) fn of_extension(&self, extended: &str, number: i32) -> Option<&Bytes> {
        Some(&self.files[*self.extensions.get(extended)?.get(&number)?])
    }

    pub(crate) fn extensions_of(&self, extended: &str) -> Vec<i32> {
        self.extensions.get(extended).map_or_else(Vec::new, |all| all.keys().copied().collect())
    }
}
