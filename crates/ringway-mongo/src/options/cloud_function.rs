//! Whether the program runs as a function of a cloud, which is stopped between two calls.

/// Whether the program runs so, by what the variables of its environment are.
///
/// Specification: MongoDB Handshake, "client.env".
pub(super) fn is_here(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is_lambda =
        variable("AWS_EXECUTION_ENV").is_some_and(|value| value.starts_with("AWS_Lambda_"));
    is_lambda || VARIABLES.into_iter().any(is_set)
}

/// Those of AWS Lambda, Azure Functions, Google Cloud and Vercel.
const VARIABLES: [&str; 5] =
    ["AWS_LAMBDA_RUNTIME_API", "FUNCTIONS_WORKER_RUNTIME", "K_SERVICE", "FUNCTION_NAME", "VERCEL"];

#[cfg(test)]
mod tests {
    use super::is_here;

    #[test]
    fn functions_of_clouds_are_known_by_their_environment() {
        for (name, value, expected) in [
            ("AWS_EXECUTION_ENV", "AWS_Lambda_rust", true),
            ("AWS_EXECUTION_ENV", "EC2", false),
            ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001", true),
            ("FUNCTIONS_WORKER_RUNTIME", "custom", true),
            ("K_SERVICE", "shop", true),
            ("FUNCTION_NAME", "shop", true),
            ("VERCEL", "1", true),
            ("VERCEL", "", false),
            ("HOME", "/root", false),
        ] {
            let found = is_here(|asked| (asked == name).then(|| value.to_owned()));
            assert_eq!(found, expected, "{name}={value}");
        }
    }
}
