//! What the program runs in, which servers are told: the system, the function of a cloud that it is, its container.
//!
//! Specification: MongoDB Handshake, "client.os" and "client.env".

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use ringway_wire::mongo::{ClientDescription, CloudFunction};

use crate::limits::OS_RELEASE_LEN_MAX;

/// What the program runs in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    os: OsRelease,
    function: Option<Function>,
    is_docker: bool,
    is_kubernetes: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OsRelease {
    name: Option<String>,
    version: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Function {
    name: &'static str,
    timeout_sec: Option<i32>,
    memory_mb: Option<i32>,
    region: Option<String>,
}

/// Functions of clouds, and the variables of which one is set there. AWS sets one more in containers of its own.
const FUNCTIONS: [(&str, &[&str]); 4] = [
    (VERCEL, &["VERCEL"]),
    (AWS, &["AWS_LAMBDA_RUNTIME_API"]),
    ("azure.func", &["FUNCTIONS_WORKER_RUNTIME"]),
    (GOOGLE, &["K_SERVICE", "FUNCTION_NAME"]),
];
const AWS: &str = "aws.lambda";
const GOOGLE: &str = "gcp.func";
const VERCEL: &str = "vercel";

impl Environment {
    /// Looks at the process and its machine.
    pub(crate) fn here() -> Self {
        static OS: LazyLock<OsRelease> = LazyLock::new(|| OsRelease::read("/etc/os-release"));
        let is_docker = Path::new("/.dockerenv").exists();
        let of_process = Self::of(|name| std::env::var(name).ok());
        Self { os: OS.clone(), is_docker, ..of_process }
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            function: function(&variable),
            is_kubernetes: variable("KUBERNETES_SERVICE_HOST").is_some(),
            ..Self::default()
        }
    }

    /// Whether the program is a function of a cloud, which is stopped between two calls.
    pub(crate) fn is_function(&self) -> bool {
        self.function.is_some()
    }

    /// Adds what is known to a description.
    pub(crate) fn describe<'a>(&'a self, client: ClientDescription<'a>) -> ClientDescription<'a> {
        let function = self.function.as_ref().map(|function| CloudFunction {
            name: function.name,
            timeout_sec: function.timeout_sec,
            memory_mb: function.memory_mb,
            region: function.region.as_deref(),
        });
        ClientDescription {
            os_name: self.os.name.as_deref(),
            os_version: self.os.version.as_deref(),
            function,
            container_runtime: self.is_docker.then_some("docker"),
            orchestrator: self.is_kubernetes.then_some("kubernetes"),
            ..client
        }
    }
}

/// The one function that the variables are of. Vercel runs on AWS; any other two contradict each other.
fn function(variable: &impl Fn(&str) -> Option<String>) -> Option<Function> {
    let is_lambda =
        variable("AWS_EXECUTION_ENV").is_some_and(|value| value.starts_with("AWS_Lambda_"));
    let is_here = |(name, variables): &(&str, &[&str])| {
        *name == AWS && is_lambda || variables.iter().any(|name| variable(name).is_some())
    };
    let here: Vec<_> = FUNCTIONS.iter().filter(|it| is_here(it)).map(|(name, _)| *name).collect();
    let name = match here[..] {
        [name] => name,
        [VERCEL, AWS] => VERCEL,
        _ => return None,
    };
    let number = |name| variable(name).and_then(|value| value.parse().ok());
    let (timeout_sec, memory_mb, region) = match name {
        AWS => (None, number("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), variable("AWS_REGION")),
        GOOGLE => (
            number("FUNCTION_TIMEOUT_SEC"),
            number("FUNCTION_MEMORY_MB"),
            variable("FUNCTION_REGION"),
        ),
        VERCEL => (None, None, variable("VERCEL_REGION")),
        _ => (None, None, None),
    };
    Some(Function { name, timeout_sec, memory_mb, region })
}

impl OsRelease {
    fn read(file: &str) -> Self {
        let mut text = String::new();
        let read = File::open(file)
            .and_then(|file| file.take(OS_RELEASE_LEN_MAX).read_to_string(&mut text));
        read.map_or_else(|_| Self::default(), |_| Self::of(&text))
    }

    /// Reads lines such as `NAME="value"`.
    fn of(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            let value = line.trim().trim_matches(['"', '\'']);
            (!value.is_empty()).then(|| value.to_owned())
        };
        Self { name: field("PRETTY_NAME").or_else(|| field("NAME")), version: field("VERSION_ID") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        Environment::of(|asked| {
            let found = variables.iter().find(|(name, _)| *name == asked);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// The examples of the specification's tests, and those of which nothing is known.
    #[test]
    fn functions_of_clouds_are_known_by_their_environment() {
        let function = |name, timeout_sec, memory_mb, region: Option<&str>| {
            Some(Function { name, timeout_sec, memory_mb, region: region.map(str::to_owned) })
        };
        let aws = ("AWS_EXECUTION_ENV", "AWS_Lambda_java8");
        let region = ("AWS_REGION", "us-east-2");
        let cases: [(&[(&str, &str)], _); 12] = [
            (
                &[aws, region, ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024")],
                function(AWS, None, Some(1024), Some("us-east-2")),
            ),
            (&[("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")], function(AWS, None, None, None)),
            (&[("AWS_EXECUTION_ENV", "EC2")], None),
            (&[("FUNCTIONS_WORKER_RUNTIME", "node")], function("azure.func", None, None, None)),
            (
                &[
                    ("K_SERVICE", "servicename"),
                    ("FUNCTION_MEMORY_MB", "1024"),
                    ("FUNCTION_TIMEOUT_SEC", "60"),
                    ("FUNCTION_REGION", "us-central1"),
                ],
                function(GOOGLE, Some(60), Some(1024), Some("us-central1")),
            ),
            (&[("FUNCTION_NAME", "shop")], function(GOOGLE, None, None, None)),
            (
                &[("VERCEL", "1"), ("VERCEL_REGION", "cdg1")],
                function(VERCEL, None, None, Some("cdg1")),
            ),
            (&[("VERCEL", "1"), aws, region], function(VERCEL, None, None, None)),
            (&[aws, ("FUNCTIONS_WORKER_RUNTIME", "node")], None),
            (&[aws, ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "big")], function(AWS, None, None, None)),
            (&[("VERCEL", "")], None),
            (&[("HOME", "/root")], None),
        ];
        for (variables, expected) in cases {
            assert_eq!(of(variables).function, expected, "{variables:?}");
        }
    }

    #[test]
    fn a_container_and_a_system_are_described() {
        let mut here = of(&[("KUBERNETES_SERVICE_HOST", "1")]);
        here.os =
            OsRelease::of("NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13\"\nVERSION_ID=13\n");
        let told = here.describe(ClientDescription::default());
        assert_eq!((told.orchestrator, told.container_runtime), (Some("kubernetes"), None));
        assert_eq!((told.os_name, told.os_version), (Some("Debian GNU/Linux 13"), Some("13")));
        assert!(told.function.is_none());
        assert_eq!(OsRelease::read("/nowhere/os-release"), OsRelease::default());
    }
}
