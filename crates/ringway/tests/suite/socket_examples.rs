//! The small services that muduo and others come with, each run as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::example::{Example, LIMIT, connect, limited};

const ANY_PORT: &str = "tcp://127.0.0.1:0";

/// A client that speaks in lines.
struct Talk {
    socket: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Talk {
    fn with(address: SocketAddr) -> Self {
        let socket = connect(address);
        let lines = BufReader::new(socket.try_clone().expect("a descriptor"));
        Self { socket, lines }
    }

    fn say(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("the example reads");
    }

    /// The next line, with its end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line in time");
        line
    }

    /// Everything up to the end.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("an end in time");
        rest
    }
}

/// What is answered to `datagram`, which is sent until it is: datagrams may be lost while a server begins.
fn ask_by_udp(address: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(address).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("not zero");
    let (begun, mut answer) = (Instant::now(), [0; 2048]);
    while begun.elapsed() < LIMIT {
        socket.send(datagram).expect("the example listens");
        if let Ok(length) = socket.recv(&mut answer) {
            return answer[..length].to_vec();
        }
    }
    panic!("no answer in time");
}

#[test]
fn simple_services() {
    let example = Example::start("simple_services", &["0"]);
    let mut next = |name: &str| -> (SocketAddr, SocketAddr) {
        let line = example.line();
        let rest = line.strip_prefix(name).unwrap_or_else(|| panic!("{name}: {line}"));
        let (tcp, udp) = rest.split_once(" udp://").expect(&line);
        let tcp = tcp.strip_prefix(": tcp://").expect(&line);
        (tcp.parse().expect(tcp), udp.parse().expect(udp))
    };
    let [echo, discard, daytime, chargen, time] =
        ["Echo", "Discard", "Daytime", "Chargen", "Time"].map(&mut next);
    let mut talk = Talk::with(echo.0);
    talk.say("hello\n");
    assert_eq!(talk.line(), "hello\n");
    assert_eq!(ask_by_udp(echo.1, b"by udp"), b"by udp");

    let mut talk = Talk::with(discard.0);
    talk.say("nobody answers\n");
    talk.socket.shutdown(Shutdown::Write).expect("connected");
    assert_eq!(talk.rest(), "");

    let by_tcp = Talk::with(daytime.0).rest();
    let by_udp = String::from_utf8(ask_by_udp(daytime.1, b"")).expect("text");
    for text in [by_tcp, by_udp] {
        let is_date = text.len() == "2000-01-01 00:00:00 UTC\r\n".len() && text.starts_with("20");
        assert!(is_date && text.ends_with(" UTC\r\n"), "{text}");
    }

    let mut talk = Talk::with(chargen.0);
    let first: String = (' '..='g').collect::<String>() + "\r\n";
    let second: String = ('!'..='h').collect::<String>() + "\r\n";
    assert_eq!([talk.line(), talk.line()], [first.clone(), second]);
    (0..10_000).for_each(|_| assert_eq!(talk.line().len(), 74));
    assert_eq!(ask_by_udp(chargen.1, b""), first.as_bytes());
    drop(talk);

    let mut seconds = [0; 4];
    connect(time.0).read_exact(&mut seconds).expect("four bytes");
    let later = ask_by_udp(time.1, b"").try_into().expect("four bytes");
    let passed = u32::from_be_bytes(later).wrapping_sub(u32::from_be_bytes(seconds));
    assert!(u64::from(passed) <= LIMIT.as_secs(), "{passed}");
    example.stop();
}

#[test]
fn finger() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = "Finish the engine.\n".repeat(20_000);
    std::fs::write(folder.path().join("ada"), &plan).expect("a file");
    let example = Example::start("finger", &[ANY_PORT, &folder.path().to_string_lossy()]);
    let (_, address) = example.listening();
    let ask = |name: &str| {
        let mut talk = Talk::with(address);
        talk.say(&format!("{name}\r\n"));
        talk.rest()
    };
    assert!(ask("ada") == plan, "another file");
    assert_eq!(ask("bob"), "no such user: bob\r\n");
    assert_eq!(ask("../ada"), "no such user: ../ada\r\n");
    assert_eq!(ask("/etc/passwd"), "no such user: /etc/passwd\r\n");
    example.stop();
}

#[test]
fn short_url() {
    let example = Example::start("short_url", &[ANY_PORT]);
    let (_, address) = example.listening();
    let ask = |request: String| {
        let mut talk = Talk::with(address);
        talk.say(&request);
        talk.socket.shutdown(Shutdown::Write).expect("connected");
        talk.rest()
    };
    let get = || ask("GET /docs HTTP/1.1\r\nhost: h\r\n\r\n".to_owned());
    let post = |url: &str| {
        let length = url.len();
        ask(format!("POST /docs HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{url}"))
    };
    assert!(get().starts_with("HTTP/1.1 404 "));
    assert!(post("https://example.org/a?b=c").starts_with("HTTP/1.1 200 "));
    let found = get();
    assert!(found.starts_with("HTTP/1.1 302 "), "{found}");
    assert!(found.contains("location: https://example.org/a?b=c\r\n"), "{found}");
    let too_long = format!("http://a/{}", "b".repeat(2048));
    for wrong in ["ftp://a", "http://a\r\nset-cookie: b", "", &too_long] {
        assert!(post(wrong).starts_with("HTTP/1.1 400 "), "{wrong}");
    }
    example.stop();
}

#[test]
fn sudoku() {
    let example = Example::start("sudoku", &[ANY_PORT]);
    let (_, address) = example.listening();
    let mut talk = Talk::with(address);
    let puzzle =
        "000000010400000000020000000000050407008000300001090000300400200050100000000806000";
    let solution =
        "693784512487512936125963874932651487568247391741398625319475268856129743274836159";
    talk.say(&format!("a:{puzzle}\r\n{puzzle}\r\n"));
    assert_eq!(talk.line(), format!("a:{solution}\r\n"));
    assert_eq!(talk.line(), format!(":{solution}\r\n"));
    // The first cell can have no digit; there are two fives in a row; there are too few cells.
    let none = format!("012345678{}9{}", "0".repeat(9 * 8 - 9), "0".repeat(8));
    let twice = format!("55{}", &puzzle[2..]);
    talk.say(&format!("b:{none}\r\nc:{twice}\r\nd:12\r\n"));
    for answer in ["b:NoSolution\r\n", "c:BadRequest\r\n", "d:BadRequest\r\n"] {
        assert_eq!(talk.line(), answer);
    }

    // Each takes a while, and more come at once than may wait.
    let hard = format!("{}\r\n", &"0".repeat(81)[..]);
    let mut many: Vec<Talk> = (0..300).map(|_| Talk::with(address)).collect();
    many.iter_mut().for_each(|talk| talk.say(&hard));
    for talk in &mut many {
        let line = talk.line();
        assert!(line.len() == 84 || line == ":ServerTooBusy\r\n", "{line}");
    }
    talk.say(&format!("z:{puzzle}\r\n"));
    assert_eq!(talk.line(), format!("z:{solution}\r\n"), "it is busy no more");
    example.stop();
}

#[test]
fn memcached() {
    let example = Example::start("memcached", &[ANY_PORT]);
    let (_, address) = example.listening();
    let (mut one, mut other) = (Talk::with(address), Talk::with(address));
    let check = |talk: &mut Talk, said: &str, answer: &[&str]| {
        talk.say(said);
        for line in answer {
            assert_eq!(talk.line(), format!("{line}\r\n"), "{said}");
        }
    };
    check(&mut one, "get a\r\n", &["END"]);
    check(&mut one, "set a 7 0 5\r\nhe\r\nl\r\n", &["STORED"]);
    check(&mut other, "get a\r\n", &["VALUE a 7 5", "he", "l", "END"]);
    check(
        &mut other,
        "set b 0 0 0\r\n\r\nget a b c\r\n",
        &["STORED", "VALUE a 7 5", "he", "l", "VALUE b 0 0", "", "END"],
    );
    check(&mut one, "delete a\r\ndelete a\r\n", &["DELETED", "NOT_FOUND"]);
    check(&mut one, "set a 0 0 3\r\nhello\r\n", &["CLIENT_ERROR bad data chunk"]);
    drop(one);
    let mut one = Talk::with(address);
    check(&mut one, "set a 0 0 9999999999\r\n", &["CLIENT_ERROR bad command line format"]);
    check(&mut one, "incr a 1\r\n", &["ERROR"]);

    // A value that is too long is skipped: what is in it is no command.
    let commands = "delete b\r\n".repeat(200_000);
    let too_long = format!("set c 0 0 {}\r\n{commands}\r\nget b c\r\n", commands.len());
    let answer = ["SERVER_ERROR object too large for cache", "VALUE b 0 0", "", "END"];
    check(&mut one, &too_long, &answer);

    // A value of a megabyte in pieces, asked for more often than a queue holds.
    let value = "v".repeat(1 << 20);
    check(&mut one, &format!("set big 0 0 {}\r\n{value}\r\n", value.len()), &["STORED"]);
    let mut socket = one.socket.try_clone().expect("a descriptor");
    let asking = thread::spawn(move || {
        (0..100).for_each(|_| socket.write_all(b"get big\r\n").expect("the example reads"));
    });
    for _ in 0..100 {
        check(&mut one, "", &[&format!("VALUE big 0 {}", value.len()), &value, "END"]);
    }
    asking.join().expect("everything is asked");
    example.stop();
}

#[test]
fn hub() {
    let example = Example::start("hub", &[ANY_PORT]);
    let (_, address) = example.listening();
    let (mut reader, mut writer) = (Talk::with(address), Talk::with(address));
    writer.say("pub rain\r\nfalls\r\n");
    // A publisher that subscribes hears that its message is there.
    writer.say("sub rain\r\n");
    assert_eq!([writer.line(), writer.line()], ["pub rain\r\n", "falls\r\n"]);
    reader.say("sub rain\r\n");
    assert_eq!([reader.line(), reader.line()], ["pub rain\r\n", "falls\r\n"], "the last one");
    writer.say("pub snow\r\nmelts\r\npub rain\r\nends\r\n");
    for talk in [&mut reader, &mut writer] {
        assert_eq!([talk.line(), talk.line()], ["pub rain\r\n", "ends\r\n"]);
    }
    reader.say("unsub rain\r\nsub snow\r\n");
    assert_eq!([reader.line(), reader.line()], ["pub snow\r\n", "melts\r\n"]);
    writer.say("pub rain\r\nagain\r\npub snow\r\nagain\r\n");
    assert_eq!([reader.line(), reader.line()], ["pub snow\r\n", "again\r\n"], "no rain");
    writer.say("what\r\n");
    assert_eq!(writer.rest(), "pub rain\r\nagain\r\n");

    // Subscribers fill the table of topics as publishers do, however often they come again.
    let topics: String = (0..9_998).map(|n| format!("sub {n}\r\n")).collect();
    reader.say(&topics);
    reader.say("sub full\r\n");
    assert_eq!(reader.rest(), "", "there is no room for another topic");
    let mut writer = Talk::with(address);
    writer.say("sub rain\r\n");
    assert_eq!([writer.line(), writer.line()], ["pub rain\r\n", "again\r\n"]);
    example.stop();
}

/// Answers each connection with `name`, and then sends back what it receives.
fn named_echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut socket = limited(socket);
                let _ = socket.write_all(name.as_bytes());
                let _ = std::io::copy(&mut &socket, &mut &socket);
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn relay() {
    let targets = [named_echo("one\n"), named_echo("two\n")].map(|it| format!("tcp://{it}"));
    let example = Example::start("relay", &[ANY_PORT, &targets[0], &targets[1], "--log"]);
    let (_, address) = example.listening();
    let (mut first, mut second) = (Talk::with(address), Talk::with(address));
    let mut greetings = [first.line(), second.line()];
    greetings.sort();
    assert_eq!(greetings, ["one\n", "two\n"], "the second goes where nobody is");
    for expected in [
        "<- 4 bytes",
        "00000000  6f 6e 65 0a                                      |one.|",
        "<- 4 bytes",
    ] {
        let line = example.line();
        assert!(line == expected || line.contains("two"), "{line}");
    }
    let sent: Vec<u8> = (0..8 << 20).map(|n| (n % 251) as u8).collect();
    let mut socket = first.socket.try_clone().expect("a descriptor");
    let (bytes, written) = (sent.clone(), mpsc::channel());
    thread::spawn(move || {
        socket.write_all(&bytes).expect("the relay reads");
        socket.shutdown(Shutdown::Write).expect("connected");
        written.0.send(()).expect("the test waits");
    });
    let mut received = Vec::new();
    first.lines.read_to_end(&mut received).expect("an end in time");
    assert!(received == sent, "other bytes came back");
    written.1.recv_timeout(LIMIT).expect("everything is written");
    drop(second);
    example.stop();
}

/// A backend that answers two requests at a time, the second one first, in capital letters.
fn backwards() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (socket, _) = listener.accept().expect("the example connects");
        let socket = limited(socket);
        let next = || -> std::io::Result<Vec<u8>> {
            let mut length = [0; 4];
            (&socket).read_exact(&mut length)?;
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            (&socket).read_exact(&mut frame)?;
            let text = frame[4..].to_ascii_uppercase();
            Ok([&length[..], &frame[..4], &text].concat())
        };
        while let (Ok(first), Ok(second)) = (next(), next()) {
            let _ = (&socket).write_all(&[second, first].concat());
        }
    });
    address
}

#[test]
fn multiplexer() {
    let backend = format!("tcp://{}", backwards());
    let example = Example::start("multiplexer", &[ANY_PORT, &backend]);
    let (_, address) = example.listening();
    let (mut one, mut other) = (Talk::with(address), Talk::with(address));
    for round in 0..20 {
        one.say(&format!("ada {round}\n"));
        other.say(&format!("bob {round}\n"));
        assert_eq!(one.line(), format!("ADA {round}\n"));
        assert_eq!(other.line(), format!("BOB {round}\n"));
    }
    example.stop();
}

/// A frame as muduo's codec makes it: length, tag, payload, Adler-32 of tag and payload.
fn tagged(payload: &[u8], sum: u32) -> Vec<u8> {
    let length = (payload.len() as u32 + 8).to_be_bytes();
    [&length[..], b"RPC0", payload, &sum.to_be_bytes()].concat()
}

#[test]
fn own_codec() {
    let example = Example::start("own_codec", &[ANY_PORT]);
    let (_, address) = example.listening();
    let mut socket = connect(address);
    // zlib.adler32(b"RPC0wikipedia") and of b"RPC0WIKIPEDIA", by another program.
    let (asked, answer) = (tagged(b"wikipedia", 0x1fb5_04cd), tagged(b"WIKIPEDIA", 0x1a15_03ad));
    for at in 0..asked.len() {
        let (head, tail) = asked.split_at(at);
        socket.write_all(head).expect("the example reads");
        socket.write_all(tail).expect("the example reads");
        let mut found = vec![0; answer.len()];
        socket.read_exact(&mut found).expect("an answer in time");
        assert_eq!(found, answer, "cut at {at}");
    }
    let wrong = [tagged(b"wikipedia", 1), vec![0, 0, 0, 7], vec![0xff; 4]];
    for bytes in wrong {
        let mut socket = connect(address);
        socket.write_all(&bytes).expect("the example reads");
        let mut rest = Vec::new();
        let ended = socket.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)), "{ended:?}");
    }
    example.stop();
}
