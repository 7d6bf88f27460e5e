//! The project's files as the checks see them: a sorted list of paths with their text.

use super::modules;
use super::source::Source;
use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

/// All files of the project, sorted by path.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One file. The path is relative to the project's root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    /// Empty for a file that is not UTF-8.
    pub(crate) text: String,
    /// Present for Rust files.
    pub(crate) source: Option<Source>,
    /// Whether only tests compile this file.
    pub(crate) is_test: bool,
}

impl Tree {
    /// Reads every file below `root` that `.gitignore` does not exclude.
    ///
    /// # Errors
    ///
    /// When a directory or file cannot be read.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let ignored = fs::read_to_string(root.join(".gitignore"))?;
        let ignored: BTreeSet<&str> = ignored
            .lines()
            .map(|line| line.trim_matches('/'))
            .filter(|line| !line.is_empty())
            .collect();
        let mut texts = Vec::new();
        read_directory(root, "", &ignored, &mut texts)?;
        Ok(Tree::new(texts))
    }

    /// A tree of the given paths and texts.
    pub(crate) fn new(mut texts: Vec<(String, String)>) -> Self {
        texts.sort();
        let files = texts.into_iter().map(|(path, text)| File {
            source: path.ends_with(".rs").then(|| Source::new(&text)),
            is_test: path.contains("/tests/") || path.contains("/benches/"),
            path,
            text,
        });
        let mut tree = Tree { files: files.collect() };
        let test_files = modules::test_files(&tree);
        for file in &mut tree.files {
            file.is_test |= test_files.contains(&file.path);
        }
        tree
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(crate) fn sample(texts: &[(&str, &str)]) -> Self {
        Tree::new(texts.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect())
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        let found = self.files.binary_search_by(|file| file.path.as_str().cmp(path));
        found.ok().map(|i| &self.files[i])
    }

    /// Whether `path` names a file or a directory of the project.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let directory = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.file(path).is_some()
            || self.files.iter().any(|file| file.path.starts_with(&directory))
    }

    /// The Rust files below `prefix`.
    pub(crate) fn sources(&self, prefix: &str) -> impl Iterator<Item = (&File, &Source)> {
        let below = self.files.iter().filter(move |file| file.path.starts_with(prefix));
        below.filter_map(|file| Some((file, file.source.as_ref()?)))
    }

    /// The manifests of the workspace, its root included.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| f.path == "Cargo.toml" || f.path.ends_with("/Cargo.toml"))
    }
}

fn read_directory(
    directory: &Path,
    prefix: &str,
    ignored: &BTreeSet<&str>,
    texts: &mut Vec<(String, String)>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if name == ".git" || ignored.contains(path.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            read_directory(&entry.path(), &format!("{path}/"), ignored, texts)?;
        } else {
            let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
            texts.push((path, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_held() {
        let tree = Tree::sample(&[("docs/a.md", ""), ("b.md", "")]);
        for path in ["docs/a.md", "docs", "docs/", "b.md", ""] {
            assert!(tree.holds(path), "{path}");
        }
        assert!(!tree.holds("doc"));
    }

    #[test]
    fn test_files_are_known_by_place_and_by_their_parent() {
        let tree = Tree::sample(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod testing;\nmod b;"),
            ("crates/a/src/testing.rs", "mod deep;"),
            ("crates/a/src/testing/deep.rs", ""),
            ("crates/a/src/b.rs", ""),
            ("crates/a/tests/c.rs", ""),
        ]);
        let tests: Vec<_> =
            tree.files.iter().filter(|f| f.is_test).map(|f| f.path.as_str()).collect();
        assert_eq!(
            tests,
            ["crates/a/src/testing.rs", "crates/a/src/testing/deep.rs", "crates/a/tests/c.rs"]
        );
    }
}
