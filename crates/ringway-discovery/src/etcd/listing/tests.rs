//! What a watch believes.

use super::*;

const CLUSTER: u64 = 7;

fn listing() -> Listing {
    Listing::new(ServiceKeys::new("r/", "market").expect("a name"))
}

fn value(place: &str, revision: i64) -> KeyValue {
    let endpoint = Endpoint::new(format!("tcp://{place}:1"));
    KeyValue {
        key: format!("r/market/{}", endpoint.address()).into(),
        value: endpoint.to_json().into(),
        mod_revision: revision,
        ..KeyValue::default()
    }
}

fn listed(revision: i64, values: Vec<KeyValue>) -> Listed {
    Listed { cluster: CLUSTER, revision, values }
}

fn put(value: KeyValue) -> Event {
    Event { r#type: EventType::Put.into(), kv: Some(value), prev_kv: None }
}

fn delete(place: &str, revision: i64) -> Event {
    let kv = KeyValue { value: Vec::new().into(), ..value(place, revision) };
    Event { r#type: EventType::Delete.into(), kv: Some(kv), prev_kv: None }
}

fn places(listing: &Listing) -> Vec<String> {
    listing.endpoints().iter().map(|it| it.address().replace("tcp://", "")).collect()
}

#[test]
fn a_list_and_its_changes_make_the_next_list() {
    let mut listing = listing();
    listing.replace(listed(5, vec![value("b", 2), value("a", 5)])).expect("a list");
    assert_eq!((places(&listing), listing.revision()), (vec!["a:1".into(), "b:1".into()], 5));
    let events = vec![put(value("c", 6)), delete("a", 7)];
    listing.apply(events, 9).expect("changes");
    assert_eq!((places(&listing), listing.revision()), (vec!["b:1".into(), "c:1".into()], 7));
    listing.progress(12);
    assert_eq!(listing.revision(), 12);
}

#[test]
fn what_cannot_be_true_changes_nothing() {
    let foreign = KeyValue { key: "other".into(), ..value("c", 8) };
    let many = (0..=limits::ENDPOINTS_MAX).map(|at| put(value(&at.to_string(), 8))).collect();
    for (events, revision, why) in [
        (vec![put(value("c", 6)), put(foreign)], 8, "is foreign"),
        (vec![put(value("c", 5))], 8, "revision 5 after revision 5"),
        (vec![put(value("c", 7)), put(value("d", 6))], 8, "revision 6 after revision 7"),
        (vec![delete("a", 9)], 8, "before it is at more than 8"),
        (vec![Event::default()], 8, "without its key"),
        (many, 8, "more than 10000"),
    ] {
        let mut listing = listing();
        listing.replace(listed(5, vec![value("a", 5)])).expect("a list");
        let error = listing.apply(events, revision).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!((places(&listing), listing.revision()), (vec!["a:1".to_owned()], 5));
        let foreign = KeyValue { key: "other".into(), ..value("c", 8) };
        assert!(listing.replace(listed(9, vec![foreign])).is_err());
        assert_eq!(places(&listing), ["a:1"]);
    }
}

#[test]
fn a_wrong_value_leaves_the_last_good_one() {
    let wrong =
        |place, revision| KeyValue { value: "no endpoint".into(), ..value(place, revision) };
    let mut listing = listing();
    listing.replace(listed(5, vec![value("a", 4), wrong("b", 5)])).expect("a list");
    assert_eq!(places(&listing), ["a:1"]);
    listing.apply(vec![put(wrong("a", 6)), put(value("b", 7))], 7).expect("changes");
    assert_eq!(places(&listing), ["a:1", "b:1"]);
    listing.replace(listed(8, vec![wrong("a", 6), wrong("b", 8)])).expect("a list");
    assert_eq!(places(&listing), ["a:1", "b:1"]);
}

#[test]
fn an_address_is_there_once_and_services_with_longer_names_are_not() {
    let by_another = KeyValue {
        key: "r/market/one".into(),
        value: Endpoint::new("tcp://a:1").weight(9).to_json().into(),
        ..value("a", 6)
    };
    let longer = KeyValue { key: "r/market/eu/tcp://b:1".into(), ..value("b", 7) };
    let mut listing = listing();
    listing.replace(listed(8, vec![value("a", 5), by_another, longer])).expect("a list");
    assert_eq!(places(&listing), ["a:1"]);
    assert_eq!(listing.endpoints()[0].weight_of(), 9, "the last change counts");
}

#[test]
fn a_list_that_has_lost_much_or_is_older_is_doubted() {
    let mut listing = listing();
    let values: Vec<_> = ["a", "b", "c"].map(|place| value(place, 5)).into();
    assert!(listing.doubt(&listed(5, Vec::new()), 0).is_none());
    listing.replace(listed(5, values.clone())).expect("a list");
    let doubted = |revision, count: usize, cluster| {
        let values = values[..count].to_vec();
        listing.doubt(&Listed { cluster, revision, values }, 3).map(|doubt| doubt.0.to_string())
    };
    assert_eq!(doubted(6, 2, CLUSTER), None);
    for (revision, count, cluster, why) in [
        (6, 1, CLUSTER, "1 endpoints of the 3"),
        (6, 0, CLUSTER, "0 endpoints of the 3"),
        (4, 3, CLUSTER, "has lost changes"),
        (6, 3, CLUSTER + 1, "is another one"),
    ] {
        let said = doubted(revision, count, cluster).expect(why);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn endpoints_of_longer_names_do_not_make_up_for_those_that_are_missing() {
    let mut listing = listing();
    let all: Vec<_> = ["a", "b", "c", "d"].map(|place| value(place, 2)).into();
    listing.replace(listed(5, all.clone())).expect("a list");
    let longer = |place: &str| {
        let endpoint = Endpoint::new(format!("tcp://{place}:1"));
        KeyValue { key: format!("r/market/eu/{}", endpoint.address()).into(), ..value(place, 6) }
    };
    let mut short = vec![value("a", 2)];
    short.extend(["e", "f", "g", "h"].map(longer));
    assert!(listing.doubt(&listed(6, short), 4).is_some(), "three of four are gone");
    let unreadable = KeyValue { value: "{".into(), ..value("a", 6) };
    let kept = [&[unreadable], &all[1..]].concat();
    assert!(listing.doubt(&listed(6, kept), 4).is_none(), "its last value is kept");
}

#[test]
fn a_full_list_takes_changes_of_what_it_has() {
    let mut listing = listing();
    let all = (0..limits::ENDPOINTS_MAX).map(|at| value(&at.to_string(), 2)).collect();
    listing.replace(listed(5, all)).expect("as many as there may be");
    listing.apply(vec![put(value("1", 6)), delete("2", 7)], 7).expect("no more than before");
    listing.apply(vec![put(value("2", 8))], 8).expect("there is room for one");
    assert!(listing.apply(vec![put(value("more", 9))], 9).is_err());
}
