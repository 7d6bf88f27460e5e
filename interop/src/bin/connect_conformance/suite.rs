//! The suite's messages and service.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "generated, for this program alone")]

include!(concat!(env!("OUT_DIR"), "/connectrpc.conformance.v1.rs"));
