//! Passes the compiler's version, target and profile to the crate, for `ringbco --version`.

use std::env::var;
use std::process::Command;

fn main() {
    if var("CARGO_CFG_WINDOWS").is_ok() {
        println!("cargo::error=ringbco does not run on Windows: build it in WSL");
        return;
    }
    let compiler = var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(compiler).arg("--version").output().ok();
    let version = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let known = |name: &str| var(name).unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rerun-if-changed=rust/build.rs");
    println!("cargo::rustc-env=RINGBCO_RUSTC={}", version.trim());
    println!("cargo::rustc-env=RINGBCO_TARGET={}", known("TARGET"));
    println!("cargo::rustc-env=RINGBCO_PROFILE={}", known("PROFILE"));
}
