//! How `.proto` files are found, read and resolved.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use prost_types::{FileDescriptorProto, FileDescriptorSet};
use protox::file::{File, FileResolver, GoogleFileResolver, IncludeFileResolver};

use crate::error::Error;
use crate::{collisions, scopes};

/// Reads the files with all of their imports.
///
/// A name such as `common.v1.Config` means what protoc takes it for: packages count that the file imports. protox counts
/// those of every file that it has read, so that it may find the name hidden, depending on their order. What it
/// refuses is therefore tried again with names that are resolved already; its errors have the lines of the files.
///
/// # Errors
/// Fails if a file cannot be read or is not valid.
pub(crate) fn read(
    protos: &[impl AsRef<Path>],
    includes: &[impl AsRef<Path>],
) -> Result<FileDescriptorSet, Error> {
    let compile = |is_resolved| {
        let includes = includes.iter().map(|path| path.as_ref().to_owned()).collect();
        let mut compiler = protox::Compiler::with_file_resolver(Protos {
            includes,
            is_resolved,
            read: RefCell::default(),
        });
        compiler.include_imports(true).include_source_info(true);
        compiler.open_files(protos).map(|compiler| compiler.file_descriptor_set())
    };
    // Only what is for debugging has the file and the line.
    let plain = compile(false).map_err(|error| Error::new(format!("{error:?}")));
    plain.or_else(|error| compile(true).map_err(|_the_same| error))
}

/// The files below some directories, and those that every compiler of protobuf has.
struct Protos {
    includes: Vec<PathBuf>,
    /// Whether names are resolved before they are handed out.
    is_resolved: bool,
    read: RefCell<HashMap<String, Rc<FileDescriptorProto>>>,
}

impl FileResolver for Protos {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        let mut includes = self.includes.iter().cloned().map(IncludeFileResolver::new);
        includes.find_map(|include| include.resolve_path(path))
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let file = self.find(name)?;
        if !self.is_resolved {
            return Ok(file);
        }
        let mut resolved = file.file_descriptor_proto().clone();
        scopes::resolve(&mut resolved, |import| {
            let mut read = self.read.borrow_mut();
            if let Some(known) = read.get(import) {
                return Some(Rc::clone(known));
            }
            let found = Rc::new(FileDescriptorProto::from(self.find(import).ok()?));
            read.insert(import.to_owned(), Rc::clone(&found));
            Some(found)
        });
        Ok(resolved.into())
    }
}

impl Protos {
    fn find(&self, name: &str) -> Result<File, protox::Error> {
        for include in &self.includes {
            match open(include, name) {
                Err(error) if error.is_file_not_found() => {}
                found => return found,
            }
        }
        GoogleFileResolver::new().open_file(name)
    }
}

/// Opens a file, which may begin with the mark of its encoding.
fn open(include: &Path, name: &str) -> Result<File, protox::Error> {
    let text = std::fs::read_to_string(include.join(name)).unwrap_or_default();
    let opened = match text.strip_prefix('\u{feff}') {
        Some(text) => File::from_source(name, text),
        None => IncludeFileResolver::new(include.to_owned()).open_file(name),
    };
    let opened = opened.and_then(|file| match collisions::in_json(file.file_descriptor_proto()) {
        Some(what) => Err(protox::Error::new(Sentence(what))),
        None => Ok(file),
    });
    opened.map_err(|error| match edition(&text) {
        Some(edition) if error.is_parse() => {
            let what = format!("{name}: `{edition}` is not read");
            let advice = "write `syntax = \"proto3\"` or `\"proto2\"` in its place, and options \
                          `features.…` as these two write them";
            protox::Error::new(Sentence(format!("{what}: {advice}")))
        }
        _ => error,
    })
}

/// The statement of a file that it is written in an edition.
fn edition(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('\u{feff}');
    let mut statements = text.split_inclusive(['\n', ';']).map(str::trim);
    let found = statements.find(|line| !line.is_empty() && !line.starts_with("//"))?;
    let found = found.trim_end_matches(';');
    let value = found.strip_prefix("edition")?.trim_start();
    value.starts_with('=').then_some(found)
}

/// An error of our own, which says the same to those who debug.
struct Sentence(String);

impl fmt::Debug for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Sentence {}
