//! JSON-RPC calls, with parameters written as JSON.

use std::error::Error;
use std::io::{self, IsTerminal, Write};

use ringway_rpc::{Client, JsonRpcClient};
use serde_json::value::RawValue;

use super::input::{self, Input};
use crate::foreign;

/// Calls `method` and prints its result.
///
/// # Errors
/// The parameters are not JSON, or the call fails with a status.
pub(super) async fn call(client: Client, method: &str, input: Input) -> Result<(), Box<dyn Error>> {
    let reading = ringway_runtime::spawn_blocking(move || input.whole())?;
    let bytes = reading.await.map_err(|_| "reading the parameters panicked")??;
    let text = String::from_utf8(input::without_end(bytes))
        .map_err(|error| format!("the parameters are not text: {error}"))?;
    let text = if text.trim().is_empty() { "null".to_owned() } else { text };
    let params = RawValue::from_string(text)
        .map_err(|error| format!("the parameters are not JSON: {error}"))?;
    let result: Box<RawValue> = JsonRpcClient::new(client)?.call(method, params).await?;
    let mut out = io::stdout();
    let text = match out.is_terminal() {
        true => foreign::printable_lines(result.get()),
        false => result.get().into(),
    };
    writeln!(out, "{text}")?;
    Ok(())
}
