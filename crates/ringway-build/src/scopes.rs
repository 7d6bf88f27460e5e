//! What relative names of types mean in a file: <https://protobuf.dev/programming-guides/proto3/#name-resolution>.

use std::collections::HashSet;
use std::rc::Rc;

use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

/// Makes the names of types with a dot in them absolute, by what the file itself and its imports declare. `import`
/// finds a file. Names that nothing declares stay as they are.
pub(crate) fn resolve(
    file: &mut FileDescriptorProto,
    import: impl Fn(&str) -> Option<Rc<FileDescriptorProto>>,
) {
    let mut visible = Visible::default();
    visible.add(file);
    let mut to_add = file.dependency.clone();
    let mut added = HashSet::new();
    while let Some(name) = to_add.pop() {
        if added.insert(name.clone())
            && let Some(found) = import(&name)
        {
            visible.add(&found);
            let public = found.public_dependency.iter();
            to_add.extend(public.filter_map(|at| found.dependency.get(*at as usize).cloned()));
        }
    }
    let package = file.package().to_owned();
    for message in &mut file.message_type {
        visible.resolve_message(&package, message);
    }
    for extension in &mut file.extension {
        visible.resolve_field(&package, extension);
    }
    for service in &mut file.service {
        let scope = joined(&package, service.name());
        for method in &mut service.method {
            for name in [&mut method.input_type, &mut method.output_type] {
                visible.resolve_name(&scope, name);
            }
        }
    }
}

/// The full names of packages and messages, which other names may begin with.
#[derive(Default)]
struct Visible(HashSet<String>);

impl Visible {
    fn add(&mut self, file: &FileDescriptorProto) {
        let package = file.package();
        let ends = package.match_indices('.').map(|(at, _)| at).chain([package.len()]);
        self.0.extend(ends.map(|end| package[..end].to_owned()));
        for message in &file.message_type {
            self.add_message(package, message);
        }
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = joined(scope, message.name());
        for inner in &message.nested_type {
            self.add_message(&name, inner);
        }
        self.0.insert(name);
    }

    fn resolve_message(&self, scope: &str, message: &mut DescriptorProto) {
        let scope = joined(scope, message.name());
        for field in message.field.iter_mut().chain(&mut message.extension) {
            self.resolve_field(&scope, field);
        }
        for inner in &mut message.nested_type {
            self.resolve_message(&scope, inner);
        }
    }

    fn resolve_field(&self, scope: &str, field: &mut FieldDescriptorProto) {
        for name in [&mut field.type_name, &mut field.extendee] {
            self.resolve_name(scope, name);
        }
    }

    /// The innermost scope counts in which the first part of the name is declared.
    fn resolve_name(&self, scope: &str, name: &mut Option<String>) {
        let Some(relative) = name.as_deref().filter(|name| !name.starts_with('.')) else { return };
        let Some((first, _)) = relative.split_once('.') else { return };
        let outer = scope.rmatch_indices('.').map(|(at, _)| &scope[..at]);
        let mut scopes = [scope].into_iter().chain(outer).chain([""]);
        if let Some(scope) = scopes.find(|scope| self.0.contains(&joined(scope, first))) {
            *name = Some(format!(".{}", joined(scope, relative)));
        }
    }
}

fn joined(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}
