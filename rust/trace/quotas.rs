//! Defines quotas: how many GPUs each owner's jobs may hold together (docs/priorities.md#quotas).
//!
//! A file of quotas is a *book*. Invariant: of each book a job has one quota at most. For example, with a book of
//! accounts and one of users a job has the quota of its account and that of its user; jobs with the same two are
//! alike.

use std::collections::HashMap;

/// The quota of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// GPUs.
    pub gpus: u64,
    /// Whether jobs may borrow GPUs beyond that.
    pub borrow: bool,
}

/// The quotas of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas<'a> {
    /// The owners of each job: their place in `sets`; any greater number for a job without a quota.
    pub owner: &'a [u32],
    /// The quotas of all books.
    pub list: &'a [Quota],
    /// For each set of owners, and in it for each book, a place in `list`; any greater number where the book has no
    /// quota for them.
    pub sets: &'a [u32],
    /// How many books there are.
    pub books: usize,
}

impl<'a> Quotas<'a> {
    /// Returns the places in `list` of the quotas of a set of owners.
    #[inline]
    pub(crate) fn of(&self, owner: u32) -> impl Iterator<Item = usize> + use<'a> {
        let (first, last) = (owner as usize * self.books, self.list.len());
        let set = self.sets.get(first..first + self.books).unwrap_or_default();
        set.iter().map(|&place| place as usize).filter(move |&place| place < last)
    }

    /// Returns the place in `list` of the quota that a book has for a set of owners.
    pub(crate) fn in_book(&self, owner: u32, book: usize) -> Option<usize> {
        let place = *self.sets.get(owner as usize * self.books + book)? as usize;
        Some(place).filter(|&place| place < self.list.len())
    }

    /// Returns the same, owned.
    pub(crate) fn to_owned(self) -> OwnedQuotas {
        let Self { owner, list, sets, books } = self;
        OwnedQuotas { owner: owner.to_vec(), list: list.to_vec(), sets: sets.to_vec(), books }
    }
}

/// The same, owned.
#[derive(Clone, Debug, Default)]
pub struct OwnedQuotas {
    /// As in [`Quotas`].
    pub owner: Vec<u32>,
    /// As in [`Quotas`].
    pub list: Vec<Quota>,
    /// As in [`Quotas`].
    pub sets: Vec<u32>,
    /// As in [`Quotas`].
    pub books: usize,
}

impl OwnedQuotas {
    /// Creates the quotas of books: of each the place of every job's owner in its list, any greater number for a job
    /// without a quota, and that list.
    ///
    /// Sets of owners are numbered in the order of their first jobs; those of a single book are its owners.
    #[must_use]
    pub fn new(books: Vec<(Vec<u32>, Vec<Quota>)>) -> Self {
        let count = books.len();
        let mut owners: Vec<Vec<u32>> = Vec::new();
        let mut list: Vec<Quota> = Vec::new();
        for (mut owner, mut quotas) in books {
            let (before, own) = (list.len() as u32, quotas.len());
            owner.iter_mut().for_each(|at| *at = if (*at as usize) < own { *at + before } else { u32::MAX });
            owners.push(owner);
            list.append(&mut quotas);
        }
        if let [owner] = &mut owners[..] {
            return Self { owner: std::mem::take(owner), sets: (0..list.len() as u32).collect(), list, books: 1 };
        }
        let (mut sets, mut numbers) = (Vec::new(), HashMap::new());
        let jobs = owners.first().map_or(0, Vec::len);
        let owner = (0..jobs)
            .map(|job| {
                let set: Vec<u32> = owners.iter().map(|owner| owner[job]).collect();
                if set.iter().all(|&place| place == u32::MAX) {
                    return u32::MAX;
                }
                let next = (sets.len() / count) as u32;
                *numbers.entry(set).or_insert_with_key(|set| {
                    sets.extend_from_slice(set);
                    next
                })
            })
            .collect();
        Self { owner, list, sets, books: count }
    }

    /// Returns the quotas, borrowed.
    #[must_use]
    pub fn view(&self) -> Quotas<'_> {
        Quotas { owner: &self.owner, list: &self.list, sets: &self.sets, books: self.books }
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnedQuotas, Quota};

    #[test]
    fn jobs_with_the_same_owners_share_a_set() {
        let quota = |gpus| Quota { gpus, borrow: false };
        let books = vec![(vec![0, 0, 9, 1, 0, 9], vec![quota(1), quota(2)]), (vec![0, 0, 0, 9, 9, 9], vec![quota(3)])];
        let quotas = OwnedQuotas::new(books);
        assert_eq!(quotas.owner, [0, 0, 1, 2, 3, u32::MAX]);
        let of = |owner| quotas.view().of(owner).map(|place| quotas.list[place].gpus).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(2), of(3), of(u32::MAX)], [vec![1, 3], vec![3], vec![2], vec![1], vec![]]);
    }
}
