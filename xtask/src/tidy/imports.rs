//! Who imports whom inside a crate: files that need each other in a circle can only be read, and
//! changed, together.

use super::finding::Finding;
use super::lexer::{Kind, Token};
use super::modules;
use super::paths::{Path, Role, paths};
use super::tree::{File, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Files that may need each other: a type, its parts and what is made of them.
const CIRCLE_FILES_MAX: usize = 3;

/// Names that stand for others are followed so far: nobody exports a thing again and again.
const FOLLOWED_MAX: usize = 8;

/// No circle of imports has more than [`CIRCLE_FILES_MAX`] files.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    circles(tree).iter().map(Circle::finding).collect()
}

/// Files each of which imports, by way of others, every other one.
struct Circle {
    /// Each file, sorted, with those of the circle that it imports itself.
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Circle {
    fn finding(&self) -> Finding {
        let first = self.files.keys().next().map_or("", String::as_str);
        let message =
            format!("at most {CIRCLE_FILES_MAX} files may import each other\n{}", self.describe());
        Finding::new("circle", first, 1, message.trim_end())
    }

    fn describe(&self) -> String {
        let root = self.root();
        let mut text = format!("{root}: a circle of {} files\n", self.files.len());
        let short = |path: &str| path[root.len()..].trim_start_matches('/').to_owned();
        let width = self.files.keys().map(|path| short(path).len()).max().unwrap_or(0);
        for (file, imports) in &self.files {
            let imports: Vec<String> = imports.iter().map(|path| short(path)).collect();
            let line = format!("  {:width$}  imports {}", short(file), imports.join(", "));
            writeln!(text, "{line}").expect("writing to a string");
        }
        text
    }

    /// `crates/name/src`.
    fn root(&self) -> &str {
        let first = self.files.keys().next().map_or("", String::as_str);
        first.find("/src/").map_or("", |end| &first[..end + "/src".len()])
    }
}

fn circles(tree: &Tree) -> Vec<Circle> {
    let roots: BTreeSet<String> = modules::roots(tree).into_iter().collect();
    let roots = roots.into_iter().filter(|root| root.contains("src/"));
    roots.flat_map(|root| Crate::read(tree, &root).circles()).collect()
}

/// The modules of one crate, without its tests.
struct Crate {
    /// The file of each module that has one, by the module's path.
    files: BTreeMap<Vec<String>, String>,
    texts: BTreeMap<String, Text>,
}

/// What one file says.
struct Text {
    module: Vec<String>,
    paths: Vec<Path>,
    /// Names of its items.
    defined: BTreeSet<String>,
    /// Those outside `use` items.
    words: BTreeSet<String>,
}

impl Crate {
    fn read(tree: &Tree, root: &str) -> Self {
        let mut this = Crate { files: BTreeMap::new(), texts: BTreeMap::new() };
        let mut queue = vec![(root.to_owned(), Vec::new())];
        while let Some((path, module)) = queue.pop() {
            let Some(file) = tree.file(&path).filter(|file| !file.is_test) else { continue };
            this.add(file, module.clone());
            let is_root = module.is_empty();
            for outside in file.source.iter().flat_map(|source| source.outside_modules()) {
                let child = module.iter().chain(&outside.path).cloned().collect::<Vec<_>>();
                let places = modules::candidates(&path, is_root, &outside).into_iter();
                queue.extend(places.map(|place| (place, child.clone())));
            }
        }
        this
    }

    fn add(&mut self, file: &File, module: Vec<String>) {
        let Some(source) = &file.source else { return };
        let tokens = source.product_tokens();
        let paths = paths(&tokens);
        for path in &paths {
            let inline = module.iter().chain(&path.inside).cloned().collect();
            self.files.entry(inline).or_insert_with(|| file.path.clone());
        }
        self.files.insert(module.clone(), file.path.clone());
        let (defined, words) = (defined(&tokens), words(&tokens));
        self.texts.insert(file.path.clone(), Text { module, paths, defined, words });
    }

    fn circles(&self) -> Vec<Circle> {
        let imports: BTreeMap<&String, BTreeSet<&String>> =
            self.texts.iter().map(|(path, text)| (path, self.imports(path, text))).collect();
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            imports.keys().map(|&path| (path, reached(&imports, path))).collect();
        let mut circles = Vec::new();
        let mut placed = BTreeSet::new();
        for &path in imports.keys() {
            if !placed.insert(path) {
                continue;
            }
            let others = reached[path].iter().filter(|&&other| reached[other].contains(path));
            let members: BTreeSet<&String> = others.copied().chain([path]).collect();
            placed.extend(&members);
            if members.len() > CIRCLE_FILES_MAX {
                let inside = |file: &&String| members.contains(*file);
                let of = |file: &String| imports[file].iter().copied().filter(inside).cloned();
                let files = members.iter().map(|&file| (file.clone(), of(file).collect()));
                circles.push(Circle { files: files.collect() });
            }
        }
        circles
    }

    /// The other files that `text` needs. To export what another has is not to need it, and neither is to give
    /// a module a short name: what is named by that counts.
    fn imports(&self, path: &String, text: &Text) -> BTreeSet<&String> {
        let is_needed = |path: &&Path| match &path.role {
            Role::Binds { name, is_public: true } => text.words.contains(name),
            Role::BindsAll { is_public } => !is_public,
            Role::Binds { .. } | Role::Code => true,
        };
        let found = text.paths.iter().filter(is_needed).filter_map(|path| {
            let from: Vec<String> = text.module.iter().chain(&path.inside).cloned().collect();
            let found = self.resolve(&from, &path.names, FOLLOWED_MAX)?;
            let is_short_name = found.is_module && matches!(path.role, Role::Binds { .. });
            (!is_short_name).then_some(found.file)
        });
        found.filter(|&found| found != path).collect()
    }

    /// What `names` stand for in the module `from`; none for what is of another crate.
    fn resolve(&self, from: &[String], names: &[String], left: usize) -> Option<Found<'_>> {
        let (mut at, mut rest) = (from.to_vec(), names);
        match names.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &names[1..]),
            "self" => rest = &names[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first if self.is_module(&at, first) => {}
            _ => return self.follow_use(&at, names, left),
        }
        while let Some(name) = rest.first().filter(|name| self.is_module(&at, name)) {
            at.push(name.clone());
            rest = &rest[1..];
        }
        let file = self.files.get(&at)?;
        let Some(name) = rest.first() else {
            return Some(Found { file, is_module: true });
        };
        let here = Found { file, is_module: false };
        match self.texts[file].defined.contains(name) {
            true => Some(here),
            false => self.follow_use(&at, rest, left).or(Some(here)),
        }
    }

    /// What `names` stand for in the module `at`, whose `use` binds the first one.
    fn follow_use(&self, at: &[String], names: &[String], left: usize) -> Option<Found<'_>> {
        let left = left.checked_sub(1)?;
        let text = &self.texts[self.files.get(at)?];
        let is_here = |path: &&Path| at[text.module.len()..] == path.inside;
        text.paths.iter().filter(is_here).find_map(|path| {
            let behind = |skipped: usize| -> Vec<String> {
                path.names.iter().chain(&names[skipped..]).cloned().collect()
            };
            match &path.role {
                Role::Binds { name, .. } if *name == names[0] => self.resolve(at, &behind(1), left),
                Role::BindsAll { .. } if path.names != names => {
                    let found = self.resolve(at, &behind(0), left)?;
                    self.texts[found.file].defined.contains(&names[0]).then_some(found)
                }
                _ => None,
            }
        })
    }

    fn is_module(&self, at: &[String], name: &str) -> bool {
        let child: Vec<String> = at.iter().cloned().chain([name.to_owned()]).collect();
        self.files.contains_key(&child)
    }
}

/// Where something is made.
#[derive(Clone, Copy)]
struct Found<'a> {
    file: &'a String,
    /// It is a whole module.
    is_module: bool,
}

/// All that `from` imports, by way of others too.
fn reached<'a>(
    imports: &BTreeMap<&'a String, BTreeSet<&'a String>>,
    from: &String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut queue: Vec<&String> = imports[from].iter().copied().collect();
    while let Some(next) = queue.pop() {
        if reached.insert(next) {
            queue.extend(&imports[next]);
        }
    }
    reached
}

fn defined(tokens: &[Token]) -> BTreeSet<String> {
    const ITEMS: &[&str] =
        &["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type", "union"];
    let is_item = |pair: &&[Token]| {
        ITEMS.iter().any(|item| pair[0].is(item)) && matches!(pair[1].kind, Kind::Word)
    };
    let mut names: BTreeSet<String> =
        tokens.windows(2).filter(is_item).map(|pair| pair[1].text.clone()).collect();
    let macros = tokens.windows(3).filter(|w| w[0].is("macro_rules") && w[1].is("!"));
    names.extend(macros.map(|w| w[2].text.clone()));
    names
}

/// Each word that stands outside `use` items.
fn words(tokens: &[Token]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut is_in_use = false;
    for (token, next) in tokens.iter().zip(tokens.iter().skip(1)) {
        is_in_use = !token.is(";") && (is_in_use || token.is("use") && !next.is("<"));
        if token.kind == Kind::Word && !is_in_use {
            words.insert(token.text.clone());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate whose modules `a` to `d` have these texts.
    fn tree(texts: [&str; 4]) -> Tree {
        let root = ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;");
        let paths = ["a", "b", "c", "d"].map(|name| format!("crates/x/src/{name}.rs"));
        let files = paths.iter().map(String::as_str).zip(texts);
        let all: Vec<_> = [("crates/x/Cargo.toml", ""), root].into_iter().chain(files).collect();
        Tree::sample(&all)
    }

    #[track_caller]
    fn check_circle(texts: [&str; 4], is_circle: bool) {
        assert_eq!(!circles(&tree(texts)).is_empty(), is_circle, "{texts:?}");
    }

    const C: &str = "use crate::d::D;\npub struct C;";
    const D: &str = "fn f() { crate::a::g() }\npub struct D;";
    const A: &str = "use super::b::B;\npub fn g() {}";
    const B: &str = "use crate::c::{self, C};\npub struct B;";

    #[test]
    fn four_files_in_a_circle_are_found() {
        check_circle([A, B, C, D], true);
        check_circle([A, B, C, "pub struct D;"], false);
        check_circle(
            [A, "use crate::c::C;\nuse crate::a::g;\nstruct B;", "pub struct C;", D],
            false,
        );
    }

    #[test]
    fn every_way_to_name_a_thing_counts() {
        check_circle([A, B, C, "mod m { fn f() { super::super::a::g() } }\npub struct D;"], true);
        check_circle([A, B, C, "use crate::a as other;\nfn f() { other::g() }\nstruct D;"], true);
        check_circle([A, B, C, "use crate::a::*;\npub struct D;"], true);
        check_circle([A, B, C, "use crate::a;\npub struct D;"], false);
    }

    #[test]
    fn tests_and_what_is_only_exported_do_not_count() {
        check_circle([A, B, C, "#[cfg(test)]\nuse crate::a::g;\npub struct D;"], false);
        check_circle([A, B, C, "pub use crate::a::g;\npub struct D;"], false);
        check_circle([A, B, C, "pub use crate::a::g;\npub struct D;\nfn f() { g() }"], true);
    }

    /// A file that only collects the names of others is between nobody.
    #[test]
    fn names_are_followed_to_where_the_thing_is() {
        let tree = Tree::sample(&[
            ("crates/x/Cargo.toml", ""),
            ("crates/x/src/lib.rs", "mod m;"),
            (
                "crates/x/src/m/mod.rs",
                "mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::B;\npub use c::*;",
            ),
            ("crates/x/src/m/a.rs", "use super::B;\npub struct A;"),
            ("crates/x/src/m/b.rs", "use super::C;\npub struct B;"),
            ("crates/x/src/m/c.rs", "use crate::m::A;\npub struct C;"),
        ]);
        let root = Crate::read(&tree, "crates/x/src/lib.rs");
        let imports = |file: &str| -> Vec<String> {
            let path = format!("crates/x/src/m/{file}.rs");
            root.imports(&path, &root.texts[&path]).into_iter().cloned().collect()
        };
        assert_eq!(imports("a"), ["crates/x/src/m/b.rs"]);
        assert_eq!(imports("b"), ["crates/x/src/m/c.rs"]);
        assert_eq!(imports("c"), ["crates/x/src/m/a.rs"]);
        assert!(imports("mod").is_empty());
    }

    #[test]
    fn a_circle_is_shown_with_its_imports() {
        let found = check(&tree([A, B, C, D]));
        let shown = "crates/x/src: a circle of 4 files\n  a.rs  imports b.rs\n";
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains(shown), "{}", found[0]);
    }
}
