//! The size of the kernel part, where all `unsafe` of the product is. The compiler keeps `unsafe` out of other
//! places, and clippy asks for a `// SAFETY:` comment at each use (`undocumented_unsafe_blocks`).

use super::finding::Finding;
use super::source::Source;
use super::tree::Tree;
use std::collections::BTreeSet;

/// The runtime's part that speaks with the kernel.
const SYS: &str = "crates/ringway-runtime/src/sys/";

/// What one person can audit in an afternoon; counts lines with code, tests left out. The tables of
/// sends and of file operations are among them: they are what makes lending memory to the kernel sound.
const SYS_CODE_LINES_MAX: usize = 920;

/// Checks that the kernel part does not grow.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.sources(SYS).filter(|(file, _)| !file.is_test);
    let lines: usize = sources.map(|(_, source)| code_lines(source)).sum();
    if lines <= SYS_CODE_LINES_MAX {
        return Vec::new();
    }
    let message = format!("{lines} lines of code, at most {SYS_CODE_LINES_MAX}");
    vec![Finding::new("unsafe", SYS, 1, message)]
}

/// Lines with a token on them, test code left out.
fn code_lines(source: &Source) -> usize {
    source.product_tokens().iter().map(|t| t.line).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: usize) {
        assert_eq!(check(&Tree::sample(&[(path, text)])).len(), expected, "{path}: {text}");
    }

    #[test]
    fn the_kernel_part_stays_small() {
        let path = "crates/ringway-runtime/src/sys/a.rs";
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "const A: u8 = 1;\n".repeat(SYS_CODE_LINES_MAX)
        );
        let comments = "/// Says why.\n".repeat(SYS_CODE_LINES_MAX);
        check_text(
            path,
            &format!("{comments}{}{tests}", "const A: u8 = 1;\n".repeat(SYS_CODE_LINES_MAX)),
            0,
        );
        check_text(path, &"const A: u8 = 1;\n".repeat(SYS_CODE_LINES_MAX + 1), 1);
    }
}
