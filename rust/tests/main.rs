//! Tests that call the engine as any other crate would.
//!
//! `cargo test` compiles them with the engine, as its module `tests`, so that the engine is compiled once. `make
//! lint` compiles them as a separate crate, which refuses what the engine does not export.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_columns;
mod by_hand;
mod cases;
mod drawn;
mod edges;
mod errors;
mod files;
mod layers;
mod logs;
mod parallel;
mod serving;
