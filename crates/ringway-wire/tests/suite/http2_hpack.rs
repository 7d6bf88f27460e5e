//! Header compression against the examples of RFC 7541, against blocks of other encoders, and through both ends.

use std::path::PathBuf;

use ringway_wire::http2::{Decoder, Encoder, Fields, Key, Known, Line, Resolver, Vocabulary};
use ringway_wire::http2::{Method, Violation};

use crate::support::{Random, for_seeds};

/// Keeps the text of every field.
#[derive(Debug)]
struct Keeper;

impl Resolver for Keeper {
    fn key(&self, _: &[u8]) -> Option<Key> {
        None
    }

    fn value(&self, _: Key, _: &[u8]) -> Known {
        Known { value: 0, keep: true }
    }
}

type Texts = Vec<(String, String)>;

fn texts(fields: &Fields) -> Texts {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn owned(fields: &[(&str, &str)]) -> Texts {
    fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Decodes the blocks of one connection and compares each with its fields.
fn check(limit: u32, blocks: &[(&str, &[(&str, &str)])]) {
    let vocabulary = Vocabulary::new(Keeper);
    let (mut decoder, mut fields) = (Decoder::default(), Fields::new(1 << 20));
    if limit != 4096 {
        // The table of the examples in C.5 and C.6 was made smaller before.
        decoder.decode(&size_update(limit), &vocabulary, &mut fields).expect("allowed");
        decoder.set_limit(limit);
    }
    for (block, expected) in blocks {
        decoder.decode(&bytes(block), &vocabulary, &mut fields).expect("a good block");
        assert_eq!(texts(&fields), owned(expected), "{block}");
    }
}

fn size_update(size: u32) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.set_limit(size);
    let mut block = Vec::new();
    encoder.begin(&mut block);
    block
}

const FIRST: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
const SECOND: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
    ("cache-control", "no-cache"),
];
const THIRD: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
];

#[test]
fn the_requests_of_appendix_c_3_and_c_4() {
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST),
            ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD),
        ],
    );
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST),
            ("8286 84be 5886 a8eb 1064 9cbf", SECOND),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD),
        ],
    );
}

#[test]
fn the_literals_of_appendix_c_2() {
    check(
        4096,
        &[
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                &[("custom-key", "custom-header")],
            ),
            ("040c 2f73 616d 706c 652f 7061 7468", &[(":path", "/sample/path")]),
            ("1008 7061 7373 776f 7264 0673 6563 7265 74", &[("password", "secret")]),
            ("82", &[(":method", "GET")]),
        ],
    );
}

const DATE: &str = "Mon, 21 Oct 2013 20:13:21 GMT";
const LATER: &str = "Mon, 21 Oct 2013 20:13:22 GMT";
const LOCATION: (&str, &str) = ("location", "https://www.example.com");
const COOKIE: &str = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

fn responses() -> [Vec<(&'static str, &'static str)>; 3] {
    let first = |status| vec![(":status", status), ("cache-control", "private"), ("date", DATE)];
    let with = |mut fields: Vec<_>, more: &[_]| {
        fields.extend_from_slice(more);
        fields
    };
    let third = vec![(":status", "200"), ("cache-control", "private"), ("date", LATER), LOCATION];
    [
        with(first("302"), &[LOCATION]),
        with(first("307"), &[LOCATION]),
        with(third, &[("content-encoding", "gzip"), ("set-cookie", COOKIE)]),
    ]
}

#[test]
fn the_responses_of_appendix_c_5_and_c_6_whose_entries_are_evicted() {
    let responses = responses();
    let check_all = |blocks: [&str; 3]| {
        let pairs: Vec<_> = blocks
            .into_iter()
            .zip(&responses)
            .map(|(block, fields)| (block, &fields[..]))
            .collect();
        check(256, &pairs);
    };
    check_all([
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a
         3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04
         677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49
         553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ]);
    check_all([
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e
         919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7
         821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed
         4ee5 b106 3d50 07",
    ]);
}

/// One block of a story: the table size in force before it, its bytes and its fields.
struct Case {
    table_size: Option<u32>,
    wire: Vec<u8>,
    fields: Texts,
}

/// The cases of a story, which is JSON of a fixed form.
fn cases(story: &str) -> Vec<Case> {
    let json: serde_json::Value = serde_json::from_str(story).expect("a story is JSON");
    let cases = json["cases"].as_array().expect("cases");
    let case = |case: &serde_json::Value| {
        let fields = case["headers"].as_array().expect("headers").iter().flat_map(|field| {
            let field = field.as_object().expect("a field");
            field
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
        });
        Case {
            table_size: case["header_table_size"].as_u64().map(|size| size as u32),
            wire: bytes(case["wire"].as_str().expect("hex digits")),
            fields: fields.collect(),
        }
    };
    cases.iter().map(case).collect()
}

/// The folder with the stories of other encoders, which is not part of the repository.
fn stories() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/hpack");
    let folder = std::env::var_os("RINGWAY_HPACK_STORIES").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

#[test]
fn the_stories_of_other_encoders() {
    let Some(folder) = stories() else {
        eprintln!("skipped: no stories; RINGWAY_HPACK_STORIES names their folder");
        return;
    };
    let mut blocks = 0;
    for encoder in folder.read_dir().expect("readable").map(|entry| entry.expect("one").path()) {
        let Ok(files) = encoder.read_dir() else { continue };
        for file in files.map(|entry| entry.expect("one").path()) {
            let story = std::fs::read_to_string(&file).expect("readable");
            blocks += decode_story(&story, &file.display().to_string());
        }
    }
    assert!(blocks > 100, "only {blocks} blocks");
}

fn decode_story(story: &str, name: &str) -> usize {
    let vocabulary = Vocabulary::new(Keeper);
    let (mut decoder, mut fields) = (Decoder::default(), Fields::new(1 << 20));
    let cases = cases(story);
    for (number, case) in cases.iter().enumerate() {
        if let Some(size) = case.table_size {
            decoder.set_limit(size);
        }
        decoder.decode(&case.wire, &vocabulary, &mut fields).expect("a good block");
        assert_eq!(texts(&fields), case.fields, "{name}, block {number}");
    }
    cases.len()
}

/// Knows the fields of a call.
#[derive(Debug)]
struct Calls;

impl Resolver for Calls {
    fn key(&self, name: &[u8]) -> Option<Key> {
        (name == b"timeout").then_some(Key::own(1))
    }

    fn value(&self, _: Key, value: &[u8]) -> Known {
        Known { value: value.len() as u64, keep: false }
    }
}

#[test]
fn the_second_request_is_indices_and_its_meanings_are_those_of_the_first() {
    let vocabulary = Vocabulary::new(Calls);
    let (mut decoder, mut fields) = (Decoder::default(), Fields::new(16 << 10));
    let mut encoder = Encoder::default();
    let lines = [
        Line::Static(3),
        Line::Static(6),
        Line::Fixed { id: 0, name: b":path", value: b"/a.B/C" },
        Line::Fixed { id: 2, name: b"te", value: b"trailers" },
        Line::Named { id: 1, name: b"timeout", value: b"10S" },
        Line::Once { name: b"of-no-concern", value: b"x" },
    ];
    let mut lens = Vec::new();
    for _ in 0..3 {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        lines.iter().for_each(|line| encoder.put(line, &mut block));
        decoder.decode(&block, &vocabulary, &mut fields).expect("a good block");
        lens.push(block.len());
        let head = fields.head();
        assert_eq!(head.value(Key::METHOD), Some(Method::Post as u64));
        assert_eq!((head.value(Key::PATH), head.value(Key::own(1))), (Some(6), Some(3)));
        assert!(head.has(Key::TE) && head.has(Key::SCHEME) && !head.has(Key::STATUS));
        assert_eq!(texts(&fields), owned(&[("of-no-concern", "x")]));
    }
    // Two static entries, two inserted ones, an index of two bytes and a value, and the literal.
    let once = 1 + 1 + 13 + 1 + 1;
    assert_eq!(lens[1..], [4 + 2 + 4 + once; 2]);
}

#[test]
fn a_table_that_becomes_smaller_is_followed_by_literals_and_one_that_grows_by_indices() {
    let vocabulary = Vocabulary::new(Keeper);
    let (mut decoder, mut fields) = (Decoder::default(), Fields::new(16 << 10));
    let mut encoder = Encoder::default();
    let line = Line::Fixed { id: 7, name: b"name", value: b"value" };
    let mut block_len = |encoder: &mut Encoder| {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.put(&line, &mut block);
        decoder.decode(&block, &vocabulary, &mut fields).expect("a good block");
        assert_eq!(texts(&fields), owned(&[("name", "value")]));
        block.len()
    };
    let literal = 1 + 5 + 6;
    let inserted = 1 + 5 + 5; // the value is shorter in Huffman's code
    assert_eq!([block_len(&mut encoder), block_len(&mut encoder)], [inserted, 1]);
    encoder.set_limit(64);
    assert_eq!([block_len(&mut encoder), block_len(&mut encoder)], [2 + 1, 1]);
    encoder.set_limit(0);
    assert_eq!([block_len(&mut encoder), block_len(&mut encoder)], [1 + literal, literal]);
    encoder.set_limit(4096);
    assert_eq!([block_len(&mut encoder), block_len(&mut encoder)], [3 + inserted, 1]);
    // Down and up again between two blocks: the peer must hear of the lowest.
    encoder.set_limit(0);
    encoder.set_limit(100_000);
    assert_eq!([block_len(&mut encoder), block_len(&mut encoder)], [1 + 3 + inserted, 1]);
}

#[test]
fn fields_beyond_the_limit_are_skipped_and_the_table_stays_right() {
    let vocabulary = Vocabulary::new(Keeper);
    let (mut decoder, mut fields) = (Decoder::default(), Fields::new(100));
    let mut encoder = Encoder::default();
    let long = [b'x'; 200];
    let first = Line::Fixed { id: 0, name: b"first", value: b"1" };
    let too_long = Line::Fixed { id: 1, name: b"long", value: &long };
    let last = Line::Fixed { id: 2, name: b"last", value: b"2" };
    for lines in [&[first, too_long, last][..], &[last, first]] {
        let mut block = Vec::new();
        lines.iter().for_each(|line| encoder.put(line, &mut block));
        decoder.decode(&block, &vocabulary, &mut fields).expect("a good block");
        assert_eq!(fields.is_cut(), lines.len() == 3);
        let expected: &[_] =
            if lines.len() == 3 { &[("first", "1")] } else { &[("last", "2"), ("first", "1")] };
        assert_eq!(texts(&fields), owned(expected));
    }
}

#[test]
fn blocks_that_make_no_sense() {
    let long_integer = [0xff, 0x80, 0x80, 0x80, 0x80, 0x80];
    for (block, expected) in [
        (&[0x80][..], Violation::NoSuchIndex),
        (&[0xbe], Violation::NoSuchIndex),
        (&[0x7f, 0x00, 0x01, b'a'], Violation::NoSuchIndex),
        (&long_integer, Violation::IntegerTooLarge),
        (&[0xff], Violation::BlockTruncated),
        (&[0x40, 0x05, b'a'], Violation::BlockTruncated),
        (&[0x40, 0x01, b'a', 0x82, 0xff, 0xff], Violation::HuffmanPadding),
        (&[0x40, 0x01, b'a', 0x84, 0xff, 0xff, 0xff, 0xff], Violation::HuffmanEos),
        (&[0x82, 0x20], Violation::SizeUpdateMisplaced),
        (&[0x3f, 0xe2, 0x1f], Violation::SizeUpdateTooLarge),
    ] {
        let mut fields = Fields::new(1 << 20);
        let error = Decoder::default().decode(block, &Vocabulary::new(Keeper), &mut fields);
        assert_eq!(error, Err(expected), "{block:02x?}");
    }
    let (mut decoder, mut fields) = (Decoder::default(), Fields::new(1 << 20));
    decoder.set_limit(100);
    let error = decoder.decode(&[0x82], &Vocabulary::new(Keeper), &mut fields);
    assert_eq!(error, Err(Violation::SizeUpdateMissing));
}

#[test]
fn a_block_that_is_cut_anywhere_is_an_error_or_the_front_of_its_fields() {
    let block = bytes("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    let vocabulary = Vocabulary::new(Keeper);
    let prepared = bytes("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
    for len in 0..block.len() {
        let (mut decoder, mut fields) = (Decoder::default(), Fields::new(1 << 20));
        decoder.decode(&prepared, &vocabulary, &mut fields).expect("a good block");
        decoder.decode(&prepared, &vocabulary, &mut fields).expect("a good block");
        match decoder.decode(&block[..len], &vocabulary, &mut fields) {
            Ok(()) => assert!(len <= 4 && fields.iter().count() == len, "{len}"),
            Err(error) => assert_eq!(error, Violation::BlockTruncated, "{len}"),
        }
    }
}

#[test]
fn any_fields_go_round_while_the_table_changes() {
    for_seeds(50, |random| {
        let vocabulary = Vocabulary::new(Keeper);
        let (mut decoder, mut fields) = (Decoder::default(), Fields::new(1 << 20));
        let mut encoder = Encoder::default();
        let fixed: Vec<_> = (0..60).map(|_| (name(random), value(random))).collect();
        for _ in 0..100 {
            if random.below(10) == 0 {
                encoder.set_limit([0, 50, 500, 4096, 1 << 20][random.below(5)]);
            }
            let mut block = Vec::new();
            let mut expected = Vec::new();
            encoder.begin(&mut block);
            for _ in 0..random.below(8) {
                let id = random.below(fixed.len());
                let (name, other) = (&fixed[id].0, value(random));
                let (same, id) = (&fixed[id].1, id as u16);
                let (line, value) = match random.below(4) {
                    0 => (Line::Once { name, value: &other }, &other),
                    1 => (Line::Secret { name, value: &other }, &other),
                    2 => (Line::Named { id: 100 + id, name, value: &other }, &other),
                    _ => (Line::Fixed { id, name, value: same }, same),
                };
                encoder.put(&line, &mut block);
                expected.push((name.clone(), value.clone()));
            }
            decoder.decode(&block, &vocabulary, &mut fields).expect("a good block");
            let decoded: Vec<_> = fields.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            assert_eq!(decoded, expected);
        }
    });
}

fn name(random: &mut Random) -> Vec<u8> {
    let len = 1 + random.below(20);
    random.bytes(len, b"abcdefghijklmnopqrstuvwxyz-_.0123456789")
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = random.below(200);
    random.bytes(len, b"abcXYZ/%\x7f\xff!{}~01")
}
