//! The traits of tokio and hyper over a connection.
