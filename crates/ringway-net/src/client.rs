//! Clients: connecting, retrying, reconnecting.
