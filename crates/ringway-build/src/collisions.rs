//! Names of a file that would be one name in Rust: told here, before code is generated that no compiler takes.

use std::collections::HashMap;

use heck::{ToSnakeCase as _, ToUpperCamelCase as _};
use prost_build::Module;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};

use crate::error::Error;
use crate::names::type_name;

/// Checks the items of all files; also their packages, if these become modules inside of one another.
///
/// # Errors
/// Names the first two that collide.
pub(crate) fn check(files: &FileDescriptorSet, packages_are_nested: bool) -> Result<(), Error> {
    let mut packages: HashMap<Module, RustNames<'_>> = HashMap::new();
    for file in own(files) {
        let types = packages.entry(module_of(file)).or_default();
        let place = Place { file: file.name(), of: format!("package `{}`", file.package()) };
        check_types(&place, &file.message_type, &file.enum_type, types)?;
    }
    if packages_are_nested {
        own(files).try_for_each(|file| check_modules(file, files))?;
    }
    Ok(())
}

/// The first two fields of a file's messages that have one name in JSON, in a sentence. protox refuses them, too, but
/// without their names.
pub(crate) fn in_json(file: &FileDescriptorProto) -> Option<String> {
    let mut messages: Vec<_> = file.message_type.iter().collect();
    while let Some(message) = messages.pop() {
        let mut names: HashMap<String, &str> = HashMap::new();
        for field in &message.field {
            let json = field.json_name.clone().unwrap_or_else(|| json_name(field.name()));
            if let Some(first) = names.insert(json.clone(), field.name()) {
                let (file, message, second) = (file.name(), message.name(), field.name());
                let both =
                    format!("{file}: the fields `{first}` and `{second}` of message `{message}`");
                return Some(format!("{both} would both be `{json}` in JSON: rename one"));
            }
        }
        messages.extend(&message.nested_type);
    }
    None
}

/// The name of a field in JSON, if it says none.
fn json_name(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut json, part| {
        let mut letters = part.chars();
        json.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        json + letters.as_str()
    })
}

/// The files that code is generated for.
fn own(files: &FileDescriptorSet) -> impl Iterator<Item = &FileDescriptorProto> {
    files.file.iter().filter(|file| file.package() != "google.protobuf")
}

fn module_of(file: &FileDescriptorProto) -> Module {
    Module::from_protobuf_package_name(file.package())
}

/// The names in the `.proto` file, by those in Rust.
type RustNames<'a> = HashMap<String, &'a str>;

/// Where names stand.
struct Place<'a> {
    file: &'a str,
    of: String,
}

impl Place<'_> {
    /// Adds a name.
    ///
    /// # Errors
    /// Fails if another one is the same in Rust.
    fn add<'a>(
        &self,
        names: &mut RustNames<'a>,
        what: &str,
        name: &'a str,
        in_rust: String,
    ) -> Result<(), Error> {
        match names.get(&in_rust) {
            Some(first) if *first != name => {
                let Self { file, of } = self;
                let both = format!("{file}: the {what} `{first}` and `{name}` of {of}");
                Err(Error::new(format!("{both} would both be `{in_rust}` in Rust: rename one")))
            }
            _ => {
                names.insert(in_rust, name);
                Ok(())
            }
        }
    }
}

fn check_types<'a>(
    place: &Place<'_>,
    messages: &'a [DescriptorProto],
    enums: &'a [EnumDescriptorProto],
    types: &mut RustNames<'a>,
) -> Result<(), Error> {
    let messages = messages.iter().filter(|message| !is_map_entry(message));
    for message in messages {
        place.add(types, "types", message.name(), type_name(message.name()))?;
        let inside = Place { of: format!("message `{}`", message.name()), ..*place };
        check_fields(&inside, message)?;
        check_types(&inside, &message.nested_type, &message.enum_type, &mut RustNames::new())?;
    }
    for kind in enums {
        place.add(types, "types", kind.name(), type_name(kind.name()))?;
        let inside = Place { of: format!("enum `{}`", kind.name()), ..*place };
        // Of several names of a number the first is taken.
        let mut numbers = HashMap::new();
        let mut values = RustNames::new();
        for value in &kind.value {
            if numbers.insert(value.number(), value.name()).is_none() {
                let in_rust = value.name().to_upper_camel_case();
                inside.add(&mut values, "values", value.name(), in_rust)?;
            }
        }
    }
    Ok(())
}

/// The members of a choice are variants of its enum; the choice itself is a field.
fn check_fields(place: &Place<'_>, message: &DescriptorProto) -> Result<(), Error> {
    let mut fields = RustNames::new();
    let mut choices: HashMap<i32, RustNames<'_>> = HashMap::new();
    for field in &message.field {
        let Some(index) = choice_of(field) else {
            place.add(&mut fields, "fields", field.name(), field.name().to_snake_case())?;
            continue;
        };
        let variants = choices.entry(index).or_default();
        place.add(variants, "fields", field.name(), field.name().to_upper_camel_case())?;
    }
    let declared = message.oneof_decl.iter().zip(0..);
    for (choice, _) in declared.filter(|(_, index)| choices.contains_key(index)) {
        place.add(&mut fields, "fields", choice.name(), choice.name().to_snake_case())?;
    }
    Ok(())
}

/// The choice that a field is a member of; one of a single field stands for a field that may be absent.
fn choice_of(field: &FieldDescriptorProto) -> Option<i32> {
    field.oneof_index.filter(|_| !field.proto3_optional())
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

/// Checks that no message has a module where a package has one.
fn check_modules(file: &FileDescriptorProto, files: &FileDescriptorSet) -> Result<(), Error> {
    let package = module_of(file);
    for message in file.message_type.iter().filter(|message| has_module(message)) {
        let name = message.name().to_snake_case();
        let is_taken = |other: &&FileDescriptorProto| {
            let other = module_of(other);
            let mut parts = other.parts();
            let is_inside = parts.by_ref().take(package.len()).eq(package.parts());
            is_inside && parts.next().is_some_and(|next| next.trim_start_matches("r#") == name)
        };
        if let Some(other) = own(files).find(is_taken) {
            let (file, message, of) = (file.name(), message.name(), file.package());
            let both = format!(
                "{file}: the message `{message}` of package `{of}` and the package `{}`",
                other.package()
            );
            let advice = "rename one, or leave one of the two packages out";
            let what = format!("{both} would both have the module `{name}` in Rust: {advice}");
            return Err(Error::new(what));
        }
    }
    Ok(())
}

/// Whether types of a message stand in a module with its name.
fn has_module(message: &DescriptorProto) -> bool {
    let is_choice = message.field.iter().any(|field| choice_of(field).is_some());
    is_choice || !message.enum_type.is_empty() || !message.nested_type.iter().all(is_map_entry)
}
