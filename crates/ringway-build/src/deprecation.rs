//! Notes `option deprecated` of messages and enums, which prost-build ignores.
//!
//! The code that prost derives uses the type, so `#[deprecated]` would cause warnings in generated code.
//! A line in the documentation takes its place.

use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet, SourceCodeInfo};

/// Adds a line to the comments of all deprecated items.
pub(crate) fn note(files: &mut FileDescriptorSet) {
    for file in &mut files.file {
        let paths = deprecated(file);
        if let Some(info) = &mut file.source_code_info {
            paths.iter().for_each(|path| note_at(path, info));
        }
    }
}

fn note_at(path: &[i32], info: &mut SourceCodeInfo) {
    if let Some(location) = info.location.iter_mut().find(|location| location.path == path) {
        let comment = location.leading_comments.get_or_insert_default();
        if !comment.is_empty() {
            comment.push('\n');
        }
        comment.push_str(" **Deprecated.**\n");
    }
}

/// Paths of the deprecated items, as `SourceCodeInfo` writes them.
fn deprecated(file: &FileDescriptorProto) -> Vec<Vec<i32>> {
    let mut found = Vec::new();
    for (place, message) in (0..).zip(&file.message_type) {
        collect(vec![MESSAGES_OF_FILE, place], message, &mut found);
    }
    for (place, kind) in (0..).zip(&file.enum_type) {
        if kind.options.as_ref().is_some_and(|options| options.deprecated()) {
            found.push(vec![ENUMS_OF_FILE, place]);
        }
    }
    found
}

fn collect(path: Vec<i32>, message: &DescriptorProto, found: &mut Vec<Vec<i32>>) {
    let inside = |field, place| path.iter().copied().chain([field, place]).collect::<Vec<_>>();
    for (place, inner) in (0..).zip(&message.nested_type) {
        collect(inside(MESSAGES_OF_MESSAGE, place), inner, found);
    }
    for (place, kind) in (0..).zip(&message.enum_type) {
        if kind.options.as_ref().is_some_and(|options| options.deprecated()) {
            found.push(inside(ENUMS_OF_MESSAGE, place));
        }
    }
    if message.options.as_ref().is_some_and(|options| options.deprecated()) {
        found.push(path);
    }
}

// Numbers of fields in google.protobuf.FileDescriptorProto and DescriptorProto.
const MESSAGES_OF_FILE: i32 = 4;
const ENUMS_OF_FILE: i32 = 5;
const MESSAGES_OF_MESSAGE: i32 = 3;
const ENUMS_OF_MESSAGE: i32 = 4;
