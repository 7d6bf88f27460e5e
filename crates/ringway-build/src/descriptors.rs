//! Writes the descriptors that servers use for reflection.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use prost::Message as _;
use prost_build::Module;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::error::Error;

/// The name of the file with the descriptors of a package and of everything that it imports.
pub(crate) fn file_of(package: &str) -> String {
    let code = code_of(&Module::from_protobuf_package_name(package));
    format!("{}.descriptors.bin", code.strip_suffix(".rs").unwrap_or(&code))
}

/// The name of a package's code file, as prost-build chooses it.
fn code_of(module: &Module) -> String {
    module.to_file_name_or("_")
}

/// Writes a file for each package that has a service, without comments.
///
/// # Errors
/// Fails if a file cannot be written, or was generated from other files by an earlier call of this process.
pub(crate) fn write(files: &FileDescriptorSet, directory: &Path) -> Result<(), Error> {
    let mut packages: BTreeMap<Module, Vec<&FileDescriptorProto>> = BTreeMap::new();
    for file in &files.file {
        let module = Module::from_protobuf_package_name(file.package());
        packages.entry(module).or_default().push(file);
    }
    for (module, own) in packages {
        let names: HashSet<&str> = own.iter().map(|file| file.name()).collect();
        let code = directory.join(code_of(&module));
        claim(code, encoded(files, &names), "give all files of a package to one call")?;
        if own.iter().any(|file| !file.service.is_empty()) {
            let path = directory.join(file_of(own[0].package()));
            write_if_changed(&path, &encoded(files, &with_imports(files, names)))?;
        }
    }
    Ok(())
}

/// Records what a file is generated from.
///
/// # Errors
/// Fails if it was generated from something else before, which would be lost. `advice` is part of the error.
pub(crate) fn claim(path: PathBuf, content: Vec<u8>, advice: &str) -> Result<(), Error> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.get(&path).is_some_and(|before| *before != content) {
        let path = path.display();
        let what = format!("{path} was made of other files by an earlier call, and would be lost");
        return Err(Error::new(format!("{what}: {advice}")));
    }
    made.insert(path, content);
    Ok(())
}

/// The descriptors that this process has generated, as many as its build script asks for.
static MADE: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// These names and those of all files that they import, directly or not.
fn with_imports<'a>(files: &'a FileDescriptorSet, names: HashSet<&'a str>) -> HashSet<&'a str> {
    let by_name: HashMap<&str, _> = files.file.iter().map(|file| (file.name(), file)).collect();
    let mut found = HashSet::new();
    let mut to_look_at: Vec<&str> = names.into_iter().collect();
    while let Some(name) = to_look_at.pop() {
        if found.insert(name)
            && let Some(file) = by_name.get(name)
        {
            to_look_at.extend(file.dependency.iter().map(String::as_str));
        }
    }
    found
}

/// The files with these names, without comments, each after its imports.
fn encoded(files: &FileDescriptorSet, names: &HashSet<&str>) -> Vec<u8> {
    let chosen = files.file.iter().filter(|file| names.contains(file.name()));
    let bare = chosen.map(|file| FileDescriptorProto { source_code_info: None, ..file.clone() });
    FileDescriptorSet { file: bare.collect() }.encode_to_vec()
}

/// Does not touch a file whose content is right, so that nothing is compiled again.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    std::fs::write(path, content)
        .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
}
