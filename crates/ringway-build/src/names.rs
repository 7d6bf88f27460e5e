//! Names of generated items, chosen so that they do not collide.

use std::collections::{HashMap, HashSet};

use heck::ToUpperCamelCase as _;
use prost_build::Module;
use prost_types::FileDescriptorSet;

/// The names generated for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceNames {
    pub(crate) the_trait: String,
    pub(crate) server: String,
    pub(crate) client: String,
}

/// The names of all services, by package and name in the `.proto` file. Two types of a module cannot have
/// the same name: messages and enums keep theirs, then the traits choose.
pub(crate) fn of_services(files: &FileDescriptorSet) -> HashMap<(String, String), ServiceNames> {
    let mut taken: HashMap<Module, HashSet<String>> = HashMap::new();
    for file in &files.file {
        let messages = file.message_type.iter().map(|message| message.name());
        let names = messages.chain(file.enum_type.iter().map(|kind| kind.name())).map(type_name);
        taken.entry(Module::from_protobuf_package_name(file.package())).or_default().extend(names);
    }
    let mut of_module = |package: &str, name: String| {
        let module = Module::from_protobuf_package_name(package);
        unique(name, taken.entry(module).or_default())
    };
    let mut traits = Vec::new();
    for file in &files.file {
        for service in &file.service {
            let the_trait = of_module(file.package(), type_name(service.name()));
            traits.push(((file.package().to_owned(), service.name().to_owned()), the_trait));
        }
    }
    let named = traits.into_iter().map(|(key, the_trait)| {
        let server = of_module(&key.0, format!("{the_trait}Server"));
        let client = of_module(&key.0, format!("{the_trait}Client"));
        (key, ServiceNames { the_trait, server, client })
    });
    named.collect()
}

/// A type's name as prost-build writes it.
pub(crate) fn type_name(name: &str) -> String {
    let camel = name.to_upper_camel_case();
    match camel.chars().next() {
        Some('0'..='9') => format!("_{camel}"),
        _ if camel == "Self" => "Self_".to_owned(),
        _ => camel,
    }
}

/// Appends underscores to the name until it is free.
pub(crate) fn unique(mut name: String, taken: &mut HashSet<String>) -> String {
    while !taken.insert(name.clone()) {
        // A keyword with an underscore is none.
        name = format!("{}_", name.strip_prefix("r#").unwrap_or(&name));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_an_underscore() {
        let mut taken = HashSet::from(["new".to_owned(), "r#type".to_owned()]);
        for expected in ["new_", "new__"] {
            assert_eq!(unique("new".to_owned(), &mut taken), expected);
        }
        assert_eq!(unique("r#type".to_owned(), &mut taken), "type_");
        assert_eq!(unique("free".to_owned(), &mut taken), "free");
    }

    #[test]
    fn types_are_called_as_prost_calls_them() {
        for (name, expected) in [
            ("market", "Market"),
            ("self", "Self_"),
            ("_2d", "_2d"),
            ("HTTPRequest", "HttpRequest"),
        ] {
            assert_eq!(type_name(name), expected);
        }
    }
}
