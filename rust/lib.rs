//! The core of ringbco.
#[cfg(feature = "python")]
mod python;
