//! A real browser, headless Chromium, driven by its own protocol over a pair of pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::alone;

/// A page in a browser of its own. The browser ends when its pipes are closed, so it survives no test,
/// however that ends.
pub(crate) struct Page {
    browser: Child,
    profile: PathBuf,
    /// Messages end in a zero byte, both ways.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    /// What the page has complained about: exceptions, and what its policy has blocked.
    pub(crate) complaints: Vec<String>,
}

const BROWSERS: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// The browser reads its orders from descriptor 3 and answers on 4.
const LAUNCH: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

impl Page {
    /// Opens `url`, whoever has signed its certificate. Without a browser the test is skipped, and says so.
    pub(crate) fn open(url: &str) -> Option<Self> {
        let is_there = |name: &&&str| {
            let mut version = Command::new(name);
            version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null());
            let ended = alone::start(&mut version).and_then(|mut it| it.wait());
            ended.is_ok_and(|status| status.success())
        };
        let Some(name) = BROWSERS.iter().find(is_there) else {
            eprintln!(
                "skipped: no Chromium is installed (apt-get install chromium-headless-shell)"
            );
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name_of_profile = format!("ringway-browser-{}-{number}", std::process::id());
        let profile = std::env::temp_dir().join(name_of_profile);
        let mut command = Command::new("sh");
        command.args(["-c", LAUNCH, "sh", name, "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--remote-debugging-pipe", "--ignore-certificate-errors"]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut browser = alone::start(&mut command).expect("a shell");
        let to = browser.stdin.take();
        let from = BufReader::new(browser.stdout.take().expect("it is piped"));
        let (session, calls, complaints) = (None, 0, Vec::new());
        let mut page = Self { browser, profile, to, from, session, calls, complaints };
        let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = page.call("Target.attachToTarget", target);
        page.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            page.call(domain, json!({}));
        }
        page.go_to(url);
        Some(page)
    }

    /// Opens another page in its place.
    pub(crate) fn go_to(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{opened}");
    }

    /// The value of an expression, which may be a promise.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let arguments = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let outcome = self.call("Runtime.evaluate", arguments);
        assert!(outcome["exceptionDetails"].is_null(), "{expression}: {outcome}");
        outcome["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        eprintln!("waiting for {expression}"); // shown where the test fails
        self.eval(&format!(
            "new Promise((done, fail) => {{ const until = Date.now() + 30000; \
             const look = () => {{ let is = false; try {{ is = {expression}; }} catch {{}} \
             if (is) done(true); else if (Date.now() > until) fail(new Error('not in time')); \
             else setTimeout(look, 20); }}; look(); }})"
        ));
    }

    fn call(&mut self, method: &str, arguments: Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": arguments });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        let to = self.to.as_mut().expect("it is there until the end");
        to.write_all(format!("{call}\0").as_bytes()).expect("the browser is there");
        loop {
            let mut said = Vec::new();
            self.from.read_until(0, &mut said).expect("the browser answers");
            assert_eq!(said.pop(), Some(0), "the browser has ended");
            let said: Value = serde_json::from_slice(&said).expect("JSON");
            match said["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Log.entryAdded") => {
                    self.complaints.push(said["params"].to_string());
                }
                None if said["id"] == self.calls => {
                    assert!(said["error"].is_null(), "{method}: {said}");
                    return said["result"].clone();
                }
                _ => {}
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.to.take()); // which ends it
        let _reaped = self.browser.wait();
        let _kept = std::fs::remove_dir_all(&self.profile);
    }
}
