//! Who may never import whom, read from the manifests.

use super::finding::Finding;
use super::manifest;
use super::tree::{File, Tree};

/// A crate and the crates of ours that it may depend on.
struct Layer {
    name: &'static str,
    may_import: &'static [&'static str],
}

const fn layer(name: &'static str, may_import: &'static [&'static str]) -> Layer {
    Layer { name, may_import }
}

/// The house, bottom to top. Whatever a row does not name is forbidden, for tests as well.
/// Rows of crates that do not exist yet wait for them.
const LAYERS: &[Layer] = &[
    layer("ringway-wire", &[]),
    layer("ringway-runtime", &[]),
    layer("ringway-build", &[]),
    layer("ringway-macros", &[]),
    layer("ringway-net", &["ringway-runtime", "ringway-wire"]),
    layer("ringway-http", &["ringway-net", "ringway-runtime", "ringway-wire"]),
    layer("ringway-tokio", &["ringway-runtime"]),
    layer(
        "ringway-rpc",
        &[
            "ringway-http",
            "ringway-macros",
            "ringway-net",
            "ringway-runtime",
            "ringway-tokio",
            "ringway-wire",
        ],
    ),
    layer(
        "ringway-discovery",
        &[
            "ringway-build",
            "ringway-http",
            "ringway-net",
            "ringway-rpc",
            "ringway-runtime",
            "ringway-wire",
        ],
    ),
    layer("ringway-mongo", &["ringway-net", "ringway-runtime", "ringway-wire"]),
    layer("ringway", LIBRARIES),
    layer("ringway-build-example", &["ringway", "ringway-build"]),
    layer("ringway-build-traps", &["ringway", "ringway-build"]),
    layer("ringway-macros-mistakes", &["ringway-rpc"]),
    layer("ringway-cli", TOOL_MAY_IMPORT),
    layer("ringway-peers", LIBRARIES),
    layer("ringway-cost", LIBRARIES),
    layer("ringway-interop", &["ringway", "ringway-build"]),
    layer("ringway-fuzz", LIBRARIES),
    layer("xtask", &[]),
];

const LIBRARIES: &[&str] = &[
    "ringway-discovery",
    "ringway-http",
    "ringway-macros",
    "ringway-mongo",
    "ringway-net",
    "ringway-rpc",
    "ringway-runtime",
    "ringway-tokio",
    "ringway-wire",
];

const TOOL_MAY_IMPORT: &[&str] = &[
    "ringway",
    "ringway-discovery",
    "ringway-http",
    "ringway-macros",
    "ringway-mongo",
    "ringway-net",
    "ringway-rpc",
    "ringway-runtime",
    "ringway-tokio",
    "ringway-wire",
];

/// Every manifest keeps to its row.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.manifests().flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let entries = manifest::entries(&file.text);
    let package = entries.iter().find(|e| e.section == "package" && e.key == "name");
    let Some(name) = package.map(|entry| entry.value.trim_matches('"')) else {
        return Vec::new();
    };
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
        let message = format!("`{name}` has no row in xtask/src/tidy/layers.rs");
        return vec![Finding::new("layers", &file.path, 1, message)];
    };
    let imports = entries.iter().filter_map(|e| Some((imported(e)?, e.line)));
    let forbidden = imports.filter(|(import, _)| {
        manifest::is_ours(import) && *import != name && !layer.may_import.contains(import)
    });
    forbidden
        .map(|(import, line)| {
            let message = format!("`{name}` must never import `{import}`");
            Finding::new("layers", &file.path, line, message)
        })
        .collect()
}

/// The crate an entry brings in: by its key, by `package = "…"`, or by a `[dependencies.x]` header.
fn imported<'a>(entry: &manifest::Entry<'a>) -> Option<&'a str> {
    if manifest::is_dependencies(entry.section) {
        let renamed =
            entry.value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
        return Some(renamed.unwrap_or(manifest::crate_name(entry.key)));
    }
    let (table, name) = entry.section.rsplit_once('.')?;
    manifest::is_dependencies(table).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_import(name: &str, dependency: &str, allowed: bool) {
        let text = format!("[package]\nname = \"{name}\"\n{dependency}\n");
        let findings = check(&Tree::sample(&[("crates/a/Cargo.toml", &text)]));
        assert_eq!(findings.is_empty(), allowed, "{name}: {dependency}");
    }

    #[test]
    fn imports_keep_to_the_table() {
        for (name, import, allowed) in [
            ("ringway-net", "ringway-wire", true),
            ("ringway-net", "ringway-rpc", false),
            ("ringway-net", "ringway", false),
            ("ringway-wire", "ringway-runtime", false),
            ("ringway-runtime", "ringway-wire", false),
            ("ringway-rpc", "ringway-mongo", false),
            ("ringway-runtime", "ringway-tokio", false),
            ("ringway-rpc", "ringway-discovery", false),
            ("ringway-mongo", "ringway-rpc", false),
            ("ringway", "ringway-cli", false),
            ("ringway-cli", "ringway-peers", false),
            ("ringway-cli", "ringway", true),
            ("ringway-unknown", "bytes", false),
        ] {
            check_import(name, &format!("[dependencies]\n{import} = \"1\""), allowed);
        }
    }

    #[test]
    fn every_spelling_is_an_import() {
        for dependency in [
            "[dev-dependencies]\nringway-net.workspace = true",
            "[target.'cfg(unix)'.dependencies]\nringway-net = { path = \"../ringway-net\" }",
            "[dependencies]\nnet = { package = \"ringway-net\", version = \"1\" }",
            "[dependencies.ringway-net]\nversion = \"1\"",
        ] {
            check_import("ringway-wire", dependency, false);
        }
    }
}
