//! SRTF: the least remaining run time first, ties fifo. Clairvoyant; a pass at every arrival and completion.
//! (Schrage, "A proof of the optimality of the shortest remaining processing time discipline", 1968.)
//!
//! A pass costs O(sizes + jobs chosen + jobs behind the first that does not fit), each times a logarithm.

use super::{Book, Policy, Running};

pub(super) struct Srtf;

impl Policy for Srtf {
    fn waiting_key(&mut self, book: &Book<'_>, job: u32) -> f64 {
        book.remaining(job)
    }

    fn running_key(&self, book: &Book<'_>, running: &Running) -> f64 {
        book.remaining_of(running)
    }
}
