//! Files that are sent over streams, on every driver.

use std::io::ErrorKind;
use std::rc::Rc;

use ringway_runtime::fs::{File, OpenOptions};
use ringway_runtime::io::StreamLimits;
use ringway_runtime::spawn;

use crate::files::{Place, pattern};
use crate::support::{Driver, narrow_pair, pair, read};

on_every_driver!(
    a_part_arrives_as_it_is,
    a_slow_peer_has_little_of_it_in_memory,
    a_file_that_has_become_shorter_is_an_error,
    a_peer_that_is_gone_ends_the_sending,
);

/// The most that the queue of a stream holds of a file: the low-water mark and a piece.
const HELD_BYTES_MAX: usize = (256 + 128) * 1024;

async fn file_of(place: &Place, content: &[u8]) -> File {
    let file = File::create(place.at("file")).await.expect("made");
    file.write_all_at(0, content.to_vec()).await.expect("room");
    file
}

async fn a_part_arrives_as_it_is(driver: Driver) {
    let place = Place::new(driver).await;
    let content = pattern(400_000);
    let file = file_of(&place, &content).await;
    let parts = [(0, 400_000), (0, 0), (7, 8), (1, 131_073), (300_000, 399_999), (9, 3)];
    for (start, end) in parts {
        let (client, server) = pair().await;
        let file = file.clone();
        let sending = spawn(async move {
            server.write(b"head ");
            file.send_to(&server, start..end).await.expect("sent");
            server.write(b" tail");
        });
        let part = content.get(start as usize..end as usize).unwrap_or_default();
        let expected = [b"head ", part, b" tail"].concat();
        assert!(read(&client, expected.len()).await == expected, "{start}..{end}");
        sending.await.expect("no panic");
    }
}

async fn a_slow_peer_has_little_of_it_in_memory(driver: Driver) {
    const BYTES: usize = 2_000_000;
    let place = Place::new(driver).await;
    let content = pattern(BYTES);
    let file = file_of(&place, &content).await;
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let server = Rc::new(server);
    let its = Rc::clone(&server);
    let sending = spawn(async move { file.send_to(&its, 0..BYTES as u64).await });
    let mut received = Vec::new();
    let mut most = 0;
    while received.len() < BYTES {
        let view = client.recv().await.expect("bytes").expect("more of them");
        received.extend_from_slice(&view);
        most = most.max(server.queued_bytes());
    }
    assert!(received == content, "bytes changed");
    assert!((1..=HELD_BYTES_MAX).contains(&most), "{most} bytes in memory");
    sending.await.expect("no panic").expect("sent");
}

async fn a_file_that_has_become_shorter_is_an_error(driver: Driver) {
    let place = Place::new(driver).await;
    let file = file_of(&place, &pattern(1_000)).await;
    let (client, server) = pair().await;
    let refused = file.send_to(&server, 500..2_000).await.expect_err("it is shorter");
    assert_eq!(refused.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(read(&client, 500).await, pattern(1_000)[500..]);
    let emptied = OpenOptions::new().write(true).truncate(true).open(place.at("file")).await;
    emptied.expect("there");
    let refused = file.send_to(&server, 0..1).await.expect_err("it is empty");
    assert_eq!(refused.kind(), ErrorKind::UnexpectedEof);
}

async fn a_peer_that_is_gone_ends_the_sending(driver: Driver) {
    const BYTES: u64 = 4_000_000;
    let place = Place::new(driver).await;
    let file = file_of(&place, &pattern(BYTES as usize)).await;
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let sending = spawn(async move { file.send_to(&server, 0..BYTES).await });
    client.recv().await.expect("bytes").expect("a first piece");
    client.abort();
    drop(client);
    sending.await.expect("no panic").expect_err("nobody has taken all that");
}
