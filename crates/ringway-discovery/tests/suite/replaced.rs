//! An endpoint that an operator puts where a server has registered itself.

use ringway_discovery::{Discovery, Endpoint, RegistrationState, Registry, RegistryAdmin};

use crate::support::watching::{TTL, impatient, registered, replaced, run};
use crate::support::{authority, end, serve};

const A: &str = "tcp://10.0.0.1:9000";

#[test]
fn an_operators_endpoint_is_not_overwritten_by_the_registration_that_it_replaces() {
    let server = serve(&Registry::new());
    let authority = authority(&server);
    run(async move || {
        let admin = RegistryAdmin::connect(&[&authority], None).await.expect("an address");
        let registry = impatient([authority]);
        let mut held = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        registered(&mut held).await;
        admin.put("market", &Endpoint::new(A).weight(77)).await.expect("it is put");
        held.update(Endpoint::new(A).weight(2));
        replaced(&mut held).await;
        assert_eq!(held.state(), RegistrationState::Replaced);
        held.deregister().await.expect("its lease is revoked");
        let listed = admin.list(Some("market")).await.expect("a list");
        let [only] = &listed[..] else { panic!("{listed:?}") };
        let weight = only.endpoint.as_ref().map(Endpoint::weight_of);
        assert_eq!((weight, only.expires_in), (Ok(77), None), "it stays until it is removed");
    });
    end(server);
}

#[test]
fn a_user_is_not_looked_at_where_there_are_none() {
    let server = serve(&Registry::new());
    let authority = authority(&server);
    run(async move || {
        let user = Some(("root", "sesame"));
        let admin = RegistryAdmin::connect(&[&format!("tcp://{authority}")], user).await;
        let listed = admin.expect("the registry has no users").list(None).await;
        assert_eq!(listed.expect("a list"), []);
    });
    end(server);
}
