//! A service that computes: each line is a sudoku, and is answered with its solution. The work is
//! done by threads, so that the cores go on reading and writing, and it is bounded: what comes
//! while too much waits is refused at once, instead of being late for all.
//!
//! Run it: `cargo run --release --example sudoku`; ask it by `nc 127.0.0.1 9981`: a name, a colon,
//! and 81 digits, 0 for an empty cell. An argument is the address to listen on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringway::net::{Connection, Framed, Server};
use ringway::runtime::spawn_blocking;
use ringway::wire::Line;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:9981".into());
    let server = Server::bind(address.as_str())?;
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    let waiting = Arc::new(AtomicUsize::new(0));
    server.serve(async move |connection: Connection| answer(connection, &waiting).await)
}

async fn answer(connection: Connection, waiting: &Arc<AtomicUsize>) -> ringway::Result {
    let mut lines = Framed::new(connection, Line::new(LINE_BYTES_MAX).crlf());
    while let Some(line) =
        lines.next_with(|line| String::from_utf8_lossy(line).into_owned()).await?
    {
        let (name, puzzle) = line.split_once(':').unwrap_or(("", &line));
        let solution = match read(puzzle) {
            Some(board) => admit(board, waiting).await,
            None => "BadRequest".into(),
        };
        lines.send(format!("{name}:{solution}").as_bytes())?.await?;
    }
    Ok(())
}

/// Has a board solved if not too many wait already.
async fn admit(mut board: [u8; 81], waiting: &Arc<AtomicUsize>) -> String {
    if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
        waiting.fetch_sub(1, Ordering::Relaxed);
        return "ServerTooBusy".into();
    }
    let count = waiting.clone();
    let work = move || {
        let is_solved = solve(&mut board, &mut STEPS_MAX.clone());
        count.fetch_sub(1, Ordering::Relaxed);
        is_solved.then(|| board.map(|cell| char::from(b'0' + cell)).iter().collect())
    };
    let Ok(task) = spawn_blocking(work) else {
        waiting.fetch_sub(1, Ordering::Relaxed);
        return "ServerTooBusy".into();
    };
    task.await.ok().flatten().unwrap_or("NoSolution".into())
}

/// Returns the board; `None` if it is none, or one digit rules out another.
fn read(text: &str) -> Option<[u8; 81]> {
    let cells: [u8; 81] = text.trim().as_bytes().try_into().ok()?;
    let is_board = cells.iter().all(u8::is_ascii_digit);
    let board = is_board.then(|| cells.map(|cell| cell - b'0'))?;
    let fits = |cell: usize| board[cell] == 0 || choices(&board, cell) & (1 << board[cell]) != 0;
    (0..81).all(fits).then_some(board)
}

/// Fills the empty cell with the fewest choices, and goes back where there is none.
fn solve(board: &mut [u8; 81], steps: &mut u32) -> bool {
    let Some(left) = steps.checked_sub(1) else { return false };
    *steps = left;
    let empty = (0..81).filter(|&cell| board[cell] == 0);
    let open = empty.map(|cell| (cell, choices(board, cell)));
    let Some((cell, digits)) = open.min_by_key(|(_, digits)| digits.count_ones()) else {
        return true;
    };
    for digit in (1..=9).filter(|digit| digits & (1 << digit) != 0) {
        board[cell] = digit;
        if solve(board, steps) {
            return true;
        }
    }
    board[cell] = 0;
    false
}

/// The digits, one bit each, that are not in the row, the column and the square of a cell.
fn choices(board: &[u8; 81], cell: usize) -> u16 {
    let (row, column) = (cell / 9, cell % 9);
    let sees = |other: usize| {
        let (r, c) = (other / 9, other % 9);
        other != cell && (r == row || c == column || (r / 3, c / 3) == (row / 3, column / 3))
    };
    (0..81).filter(|&it| sees(it)).fold(0x3fe, |digits, it| digits & !(1 << board[it]))
}

const LINE_BYTES_MAX: usize = 200;
const WAITING_MAX: usize = 128;
/// A puzzle that takes more is one of somebody who wants to keep the server busy.
const STEPS_MAX: u32 = 100_000;
