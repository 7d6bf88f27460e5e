//! Entry points of the fuzz targets: what a source of hosts may be, whoever has written it.

use ringway_rpc::Status;

use crate::endpoint::Endpoint;
use crate::limits;
use crate::sources;

/// Reads a list of hosts. Entries are no more than the text has places for, and a host is the same when its address is
/// read again.
pub fn list(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(entries) = sources::parse_list(text) else {
        return;
    };
    assert!(entries.len() <= text.len(), "{} entries of {} bytes", entries.len(), text.len());
    for entry in entries {
        match entry {
            Ok(host) => {
                let again = ringway_rpc::Host::new(host.address().to_string());
                let again = again.expect("the address of a host is one");
                assert_eq!(again.address(), host.address());
            }
            Err(why) => check_refusal(&why, text.len()),
        }
    }
}

/// Reads the value of a key. An endpoint that is written and read again is the same, and has a host or says why not.
pub fn endpoint(data: &[u8]) {
    let Ok(endpoint) = Endpoint::from_json(data) else {
        return;
    };
    assert!(data.len() <= limits::ENDPOINT_BYTES_MAX);
    let written = endpoint.to_json();
    // Escapes may be longer than what they stand for.
    if written.len() <= limits::ENDPOINT_BYTES_MAX {
        let again = Endpoint::from_json(written.as_bytes()).expect("it was written by us");
        assert_eq!(again, endpoint);
    }
    match endpoint.to_host() {
        Ok(host) => assert!((1..=limits::WEIGHT_MAX).contains(&host.weight_of())),
        Err(why) => check_refusal(&why, data.len()),
    }
}

fn check_refusal(why: &Status, bytes: usize) {
    assert!(why.message().len() <= 8 * bytes + 1_000, "it says more than there is: {why}");
}
