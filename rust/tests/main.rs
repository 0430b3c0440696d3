//! Integration tests, one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_columns;
mod by_hand;
mod cases;
mod comparison;
mod edges;
mod equality;
mod errors;
mod files;
mod logs;
mod outside;
mod parallel;
mod rooms;
