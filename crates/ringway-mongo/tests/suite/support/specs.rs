//! The tests of MongoDB's specifications, as files of JSON. The source package of MongoDB's Python client has them
//! (Apache-2.0); it is fetched once and kept below cargo's target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::alone;

const VERSION: &str = "4.20.1";
const SHA_256: &str = "1ac112b3ffa3d010cfc2fc54e3ae677a12c63d18c6115db4451df64f1a1175eb";

/// Seconds after which a registry that does not answer is given up.
const FETCH_SECONDS_MAX: &str = "300";

/// Returns the tests of the files in a folder of the specifications, in order. Without the package, it says why, and
/// the caller has nothing to test.
pub(crate) fn cases(folder: &str) -> Option<Vec<Case>> {
    let cases = read_folder(&folder_of(folder)?);
    assert!(!cases.is_empty(), "{folder} has no tests");
    println!("{folder}: {} tests", cases.len());
    Some(cases)
}

/// Returns the files of a folder of the specifications, in order, with their names.
pub(crate) fn files(folder: &str) -> Option<Vec<(String, Value)>> {
    let read = |file: PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("a file of the package");
        (name, serde_json::from_str(&text).expect("JSON"))
    };
    Some(files_of(&folder_of(folder)?).into_iter().map(read).collect())
}

/// Keeps the tests with these titles, `file: description`.
pub(crate) fn only(mut files: Vec<(String, Value)>, titles: &[String]) -> Vec<(String, Value)> {
    for (name, file) in &mut files {
        let tests = file["tests"].as_array_mut().expect("a file has tests");
        tests.retain(|test| {
            let title = format!("{name}: {}", test["description"].as_str().expect("a name"));
            titles.contains(&title)
        });
    }
    files.retain(|(_, file)| file["tests"].as_array().is_some_and(|tests| !tests.is_empty()));
    files
}

/// Deals the tests of some files out, one by one, so that no share waits for a long file. There are as many shares as tests at
/// most.
pub(crate) fn shares(files: &[(String, Value)], most: usize) -> Vec<Vec<(String, Value)>> {
    let mut shares = vec![Vec::new(); most];
    let mut dealt = 0;
    for (name, file) in files {
        let tests = file["tests"].as_array().expect("a file has tests");
        let first = dealt;
        dealt += tests.len();
        for (at, share) in shares.iter_mut().enumerate() {
            let is_its = |number: usize| (first + number) % most == at;
            let own = tests.iter().enumerate().filter(|(number, _)| is_its(*number));
            let own: Vec<Value> = own.map(|(_, test)| test.clone()).collect();
            if !own.is_empty() {
                let mut part = file.clone();
                part["tests"] = own.into();
                share.push((name.clone(), part));
            }
        }
    }
    shares.retain(|share| !share.is_empty());
    shares
}

/// All folders of the specifications that have files of JSON, in order.
pub(crate) fn folders() -> Option<Vec<String>> {
    let root = folder_of("")?;
    let (mut found, mut left) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(&folder).expect("a folder of the package");
        let entries = entries.map(|entry| entry.expect("an entry").path());
        left.extend(entries.filter(|path| path.is_dir()));
        if folder != root && !files_of(&folder).is_empty() {
            let name = folder.strip_prefix(&root).expect("it is below");
            found.push(name.to_str().expect("a plain name").to_owned());
        }
    }
    found.sort();
    Some(found)
}

fn folder_of(folder: &str) -> Option<PathBuf> {
    static ROOT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match ROOT.get_or_init(fetch) {
        Ok(root) => Some(root.join("test").join(folder)),
        Err(why) => {
            println!("skipped, the tests of {folder} cannot be fetched: {why}");
            None
        }
    }
}

/// A test of a specification.
pub(crate) struct Case {
    /// Its file without the extension, and its description.
    pub(crate) name: String,
    pub(crate) test: Value,
}

impl Case {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.test[key].as_str().unwrap_or_else(|| panic!("{}: no {key}", self.name))
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.test[key].as_bool().unwrap_or_default()
    }
}

/// Reads the files of a folder; each is one test, or a list of them.
fn read_folder(folder: &Path) -> Vec<Case> {
    files_of(folder).iter().flat_map(|file| read_file(file)).collect()
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

fn read_file(file: &Path) -> Vec<Case> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let text = fs::read_to_string(file).expect("a file of the package");
    let mut whole: Value = serde_json::from_str(&text).expect("JSON");
    let name =
        |test: &Value| format!("{stem}: {}", test["description"].as_str().unwrap_or_default());
    match whole["tests"].take() {
        Value::Array(tests) => {
            tests.into_iter().map(|test| Case { name: name(&test), test }).collect()
        }
        _ => vec![Case { name: name(&whole), test: whole }],
    }
}

/// Cargo's folder for files of tests: `tmp` beside the folder of the profile. Cargo tells it integration tests only.
fn folder_for_tests() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its program");
    let target = program.ancestors().nth(3).expect("it is below `target/debug/deps`");
    target.join("tmp")
}

/// Returns the unpacked package.
fn fetch() -> Result<PathBuf, String> {
    let target = &folder_for_tests();
    fs::create_dir_all(target).map_err(|error| error.to_string())?;
    let package = format!("pymongo-{VERSION}");
    let root = target.join(&package);
    if root.join("test").is_dir() {
        return Ok(root);
    }
    let work = target.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let fetched = fetch_into(&work, &package);
    // Another process may have been first, and its package is as good.
    let moved = fetched.and_then(|()| match fs::rename(work.join(&package), &root) {
        Err(error) if !root.join("test").is_dir() => Err(error.to_string()),
        _ => Ok(root),
    });
    fs::remove_dir_all(&work).map_err(|error| error.to_string())?;
    moved
}

fn fetch_into(work: &Path, package: &str) -> Result<(), String> {
    let wanted = format!("pymongo=={VERSION}");
    let pip = ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"];
    run(Command::new("timeout")
        .arg(FETCH_SECONDS_MAX)
        .args(pip)
        .arg("--dest")
        .arg(work)
        .arg(wanted))?;
    let archive = work.join(format!("{package}.tar.gz"));
    let bytes = fs::read(&archive).map_err(|error| error.to_string())?;
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, SHA_256, "the package is not the one whose tests were reviewed");
    run(Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(work))
}

fn run(command: &mut Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = alone::start(command).and_then(Child::wait_with_output);
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
