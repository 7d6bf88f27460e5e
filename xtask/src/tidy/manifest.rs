//! `Cargo.toml`: a reason for every dependency, and the workspace's lints in every crate.

use super::finding::Finding;
use super::tree::Tree;

/// One `key = value` line of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The header above, without brackets; empty before the first one.
    pub(crate) section: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
    pub(crate) line: usize,
    /// Whether a comment stands behind the entry or on the line above it.
    pub(crate) explained: bool,
}

/// Every dependency that is not ours has a reason; every member takes the workspace's lints.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.manifests() {
        let entries = entries(&file.text);
        let bare = entries.iter().filter(|e| is_dependencies(e.section) && !e.explained);
        findings.extend(bare.filter(|e| !is_ours(e.key)).map(|entry| {
            let message =
                format!("dependency `{}` has no `# reason` on its line or above", entry.key);
            Finding::new("reason", &file.path, entry.line, message)
        }));
        let inherits =
            |e: &Entry| e.section == "lints" && e.key == "workspace" && e.value == "true";
        // A package with a `[workspace]` of its own, like the fuzz targets, has nothing to inherit.
        let is_member = file.text.contains("[package]") && !file.text.contains("[workspace]");
        if is_member && !entries.iter().any(inherits) {
            let message = "lacks `[lints] workspace = true`";
            findings.push(Finding::new("lints", &file.path, 1, message));
        }
    }
    findings
}

/// The entries of a manifest, as far as they fit one line or start on one.
pub(crate) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut depth = 0;
    let mut comment_above = false;
    let mut found = Vec::new();
    for (i, row) in text.lines().enumerate() {
        let (code, comment) = split_comment(row);
        let code = code.trim();
        if depth == 0 && code.starts_with('[') {
            section = code.trim_matches(['[', ']']);
        } else if let (0, Some((key, value))) = (depth, code.split_once('=')) {
            let explained = comment_above || comment.is_some_and(|c| !c.trim().is_empty());
            let (key, value) = (key.trim(), value.trim());
            found.push(Entry { section, key, value, line: i + 1, explained });
        }
        if !code.starts_with('[') || depth > 0 {
            depth += code.matches(['{', '[']).count();
            depth = depth.saturating_sub(code.matches(['}', ']']).count());
        }
        comment_above = code.is_empty() && comment.is_some_and(|c| !c.trim().is_empty());
    }
    found
}

/// The Rust files that `path = "…"` names for targets of the package.
pub(crate) fn paths(text: &str) -> impl Iterator<Item = &str> {
    let named = entries(text).into_iter().filter(|entry| entry.key == "path");
    named.map(|entry| entry.value.trim_matches('"')).filter(|path| path.ends_with(".rs"))
}

/// Whether `section` lists dependencies of any kind, for any target.
pub(crate) fn is_dependencies(section: &str) -> bool {
    section.split('.').next_back().is_some_and(|last| last.ends_with("dependencies"))
}

/// The crate that a dependency's key names: `ringway-net.workspace` is `ringway-net`.
pub(crate) fn crate_name(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

/// Whether a dependency's key names a crate of this workspace.
pub(crate) fn is_ours(key: &str) -> bool {
    let name = crate_name(key);
    name == "ringway" || name == "xtask" || name.starts_with("ringway-")
}

/// Cuts `row` at the first `#` outside quotes.
fn split_comment(row: &str) -> (&str, Option<&str>) {
    let mut quoted = false;
    for (i, c) in row.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return (&row[..i], Some(&row[i + 1..])),
            _ => {}
        }
    }
    (row, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, rules: &[(&str, usize)]) {
        let found = check(&Tree::sample(&[("crates/a/Cargo.toml", text)]));
        let found: Vec<_> = found.iter().map(|f| (f.rule, f.line)).collect();
        assert_eq!(found, rules);
    }

    const LINTS: &str = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";

    #[test]
    fn a_dependency_needs_a_reason() {
        check_text(&format!("{LINTS}[dependencies]\nbytes = \"1\"\n"), &[("reason", 6)]);
        check_text(&format!("{LINTS}[dependencies]\nbytes = \"1\" #\n"), &[("reason", 6)]);
        check_text(
            &format!("{LINTS}[target.'cfg(loom)'.dependencies]\nloom = \"1#\"\n"),
            &[("reason", 6)],
        );
        check_text(&format!("{LINTS}[dependencies]\nbytes = \"1\" # shared buffers\n"), &[]);
        check_text(&format!("{LINTS}[dev-dependencies]\n# why\nx = {{ a = [\n\"b\",\n] }}\n"), &[]);
        check_text(&format!("{LINTS}[dependencies]\nringway-net.workspace = true\n"), &[]);
    }

    #[test]
    fn a_member_takes_the_lints() {
        check_text("[package]\nname = \"a\"\n", &[("lints", 1)]);
        check_text(
            "[package]\nname = \"a\"\n[lints.rust]\nmissing_docs = \"warn\"\n",
            &[("lints", 1)],
        );
        check_text("[workspace]\nmembers = []\n", &[]);
        check_text("[package]\nname = \"fuzz\"\n[workspace]\n", &[]);
    }

    #[test]
    fn target_paths_are_found() {
        let text = "[[bin]]\npath = \"odd/a.rs\"\n[dependencies]\nx = { path = \"../x\" }\n";
        assert_eq!(paths(text).collect::<Vec<_>>(), ["odd/a.rs"]);
    }
}
