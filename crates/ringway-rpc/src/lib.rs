//! One call, whatever the protocol: services, clients, streams, deadlines, balancing, retries.
