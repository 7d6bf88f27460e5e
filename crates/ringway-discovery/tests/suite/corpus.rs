//! Replays every file of the fuzzer's corpus, whole and cut at every byte.

use std::path::Path;

use ringway_discovery::fuzz;

#[test]
fn lists() {
    replay("discovery_list", fuzz::list);
}

#[test]
fn endpoints() {
    replay("discovery_endpoint", fuzz::endpoint);
}

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = 0;
    for entry in folder.read_dir().expect("the corpus is part of the repository") {
        let path = entry.expect("a readable folder").path();
        eprintln!("{}", path.display());
        let bytes = std::fs::read(&path).expect("a readable file");
        (0..=bytes.len()).for_each(|cut| run(&bytes[..cut]));
        files += 1;
    }
    assert!(files > 0, "fuzz/corpus/{target} holds no input");
}
