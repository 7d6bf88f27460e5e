//! Servers from DNS.

use std::net::SocketAddr;

use super::{ClientOptions, from_uri};
use crate::error::Result;
use crate::srv_source::{SrvQuestion, ask, shuffle};
use crate::uri::{ConnectionString, InvalidUri, LookedUp, SrvRecords};

impl ClientOptions {
    /// Reads a connection string, and looks up the servers of a `mongodb+srv://` one: its SRV records, and the options of
    /// its TXT record. TLS is on for it. Other strings are read as by [`parse`](Self::parse).
    ///
    /// ```no_run
    /// use ringway_mongo::{Client, ClientOptions};
    ///
    /// # async fn connect() -> ringway_mongo::Result<Client> {
    /// let options = ClientOptions::look_up("mongodb+srv://ada:secret@cluster0.example.mongodb.net").await?;
    /// # Ok(Client::new(options))
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse); [`is_options`](crate::Error::is_options) for records that the specification forbids,
    /// such as a server in another domain; [`is_network`](crate::Error::is_network) if the name cannot be looked up.
    pub async fn look_up(uri: &str) -> Result<Self> {
        Self::from_connection_string(&ConnectionString::look_up(uri, None).await?)
    }
}

impl ConnectionString {
    /// Parses a connection string, and looks up the hosts and options of a `mongodb+srv://` one: by the name server at
    /// `server` if there is one, otherwise by the system's.
    ///
    /// # Errors
    /// Those of [`ClientOptions::look_up`].
    pub async fn look_up(uri: &str, server: Option<SocketAddr>) -> Result<Self> {
        let parsed = Self::parse(uri).map_err(from_uri::malformed)?;
        let Some(question) = SrvQuestion::of(&parsed) else { return Ok(parsed) };
        let (records, valid_for) = ask(&question, server).await?;
        let answered = Self::parse_answered(uri, &question, records);
        let mut answered = answered.map_err(from_uri::malformed)?;
        answered.looked_up = Some(LookedUp { server, valid_for });
        Ok(answered)
    }

    /// Parses a connection string again, with what DNS has answered.
    ///
    /// # Errors
    /// Those of `parse`, and what the specification forbids records to have.
    fn parse_answered(
        uri: &str,
        question: &SrvQuestion,
        records: SrvRecords,
    ) -> Result<Self, InvalidUri> {
        let mut parsed = Self::parse_with(uri, Some(records))?;
        if parsed.hosts.len() > question.servers_max {
            shuffle(&mut parsed.hosts);
            parsed.hosts.truncate(question.servers_max);
        }
        Ok(parsed)
    }
}
