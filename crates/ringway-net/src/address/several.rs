//! Lists of addresses.

use std::net::SocketAddr;

use super::Address;
use crate::error::{Error, Kind, Result};

/// One address or several, as servers and clients take them: a string, an [`Address`], a
/// [`SocketAddr`] (which means TCP), or an array, a `Vec` or a slice of these.
///
/// ```
/// use ringway_net::{Server, ToAddresses};
///
/// Server::bind("tcp://127.0.0.1:0")?;
/// let both = Server::bind(["tcp://127.0.0.1:0", "udp://127.0.0.1:0"])?.addresses();
/// assert_eq!(both[0].port(), both[1].port()); // a port that both can have
/// assert!("127.0.0.1:0".to_addresses().is_err()); // no scheme
/// # Ok::<(), ringway_net::Error>(())
/// ```
pub trait ToAddresses {
    /// Parses the addresses and keeps their order.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) when one cannot be parsed, or the list is empty.
    fn to_addresses(self) -> Result<Vec<Address>>;
}

impl ToAddresses for &str {
    fn to_addresses(self) -> Result<Vec<Address>> {
        Ok(vec![self.parse()?])
    }
}

impl ToAddresses for &String {
    fn to_addresses(self) -> Result<Vec<Address>> {
        self.as_str().to_addresses()
    }
}

impl ToAddresses for String {
    fn to_addresses(self) -> Result<Vec<Address>> {
        self.as_str().to_addresses()
    }
}

impl ToAddresses for Address {
    fn to_addresses(self) -> Result<Vec<Address>> {
        Ok(vec![self])
    }
}

impl ToAddresses for &Address {
    fn to_addresses(self) -> Result<Vec<Address>> {
        Ok(vec![self.clone()])
    }
}

impl ToAddresses for SocketAddr {
    fn to_addresses(self) -> Result<Vec<Address>> {
        Ok(vec![self.into()])
    }
}

impl<A: ToAddresses, const N: usize> ToAddresses for [A; N] {
    fn to_addresses(self) -> Result<Vec<Address>> {
        all(self)
    }
}

impl<A: ToAddresses> ToAddresses for Vec<A> {
    fn to_addresses(self) -> Result<Vec<Address>> {
        all(self)
    }
}

impl<'a, A> ToAddresses for &'a [A]
where
    &'a A: ToAddresses,
{
    fn to_addresses(self) -> Result<Vec<Address>> {
        all(self)
    }
}

fn all<A: ToAddresses>(list: impl IntoIterator<Item = A>) -> Result<Vec<Address>> {
    let mut addresses = Vec::new();
    for one in list {
        addresses.extend(one.to_addresses()?);
    }
    match addresses.is_empty() {
        true => Err(Error::new(Kind::Address, "the list of addresses is empty")),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_errors_name_the_bad_address() {
        let texts = vec![String::from("tcp://127.0.0.1:1"), String::from("udp://127.0.0.1:2")];
        let read = texts.as_slice().to_addresses().expect("two addresses");
        assert_eq!(read, texts.to_addresses().expect("two addresses"));
        assert_eq!(read[1].to_string(), "udp://127.0.0.1:2");
        let empty = Vec::<Address>::new().to_addresses().expect_err("none");
        assert!(empty.is_address(), "{empty}");
        let wrong = ["tcp://127.0.0.1:1", "127.0.0.1:2"].to_addresses().expect_err("no scheme");
        assert!(wrong.to_string().contains("`127.0.0.1:2`"), "{wrong}");
    }
}
