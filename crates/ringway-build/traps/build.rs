//! Makes code of all traps, by several calls as a build script may make them.

use std::path::PathBuf;

use ringway_build::{Builder, Error};

fn main() -> Result<(), Error> {
    let out: PathBuf = std::env::var_os("OUT_DIR").expect("cargo sets it").into();
    // Packages that use each other, or have a keyword in their name, or none.
    Builder::new()
        .include_file("nested.rs")
        .compile(&["names.proto", "second.proto", "keyword.proto", "root.proto"], &["proto"])?;
    // Another call, into the same directory.
    ringway_build::compile(&["proto/comments.proto"], &["proto"])?;
    // A directory of its own, and a configuration.
    Builder::new()
        .out_dir(out.join("aside"))
        .configure(|prost| {
            prost.bytes([""; 0]);
        })
        .compile(&["proto/old.proto"], &["proto"])
}
