//! Measures fragmentation: the idle GPUs that the demands of a job table cannot use (Weng et al., "Beware of
//! Fragmentation", ATC 2023).
//!
//! The fragmentation of a server is the sum, over the demands of the table, of the idle thousandths that a demand
//! cannot use there: all of them if it cannot run there, else those on GPUs too small for it. If no GPU has room for a
//! share, every GPU is too small for it. So the loss of a GPU depends on its own room alone, except that whole-GPU
//! demands lose all empty GPUs of a server with too few of them. Both are tables. For example, with demands of 500
//! thousandths and of 2 GPUs, a GPU with room for 300 loses 300 for each, and a lone empty GPU loses 1,000 for the
//! second.
//!
//! All numbers are whole, so equal choices tie exactly.

use crate::ids::MILLI_GPU;

/// A demand of some jobs of a table, as the servers of one type see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) num_gpus: u32,
    /// Thousandths of one GPU; 0 for whole GPUs.
    pub(crate) share: u32,
    /// Whether they may use these servers.
    pub(crate) usable: bool,
    /// Number of jobs.
    pub(crate) jobs: u64,
}

/// Thousandths lost, summed over the demands of a table.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// Loss of a GPU, by its room.
    by_room: Vec<i64>,
    /// Loss of the empty GPUs of a server, by their number, to demands of more GPUs than that.
    by_empty: Vec<i64>,
}

impl Loss {
    /// Builds the tables. `largest`: GPUs of the largest server.
    pub(crate) fn new(demands: &[Want], largest: u32) -> Self {
        let whole = MILLI_GPU as usize;
        // How many demands find a GPU of that room too small, and request more GPUs than that: first the differences.
        let mut too_small = vec![0i64; whole + 1];
        let mut larger = vec![0i64; largest as usize + 1];
        for &Want { num_gpus, share, usable, jobs } in demands {
            let needs = match (usable, share) {
                (false, _) => whole + 1,
                (true, 0) => whole,
                (true, share) => share as usize,
            };
            too_small[needs - 1] += jobs as i64;
            if usable && share == 0 {
                larger[num_gpus.min(largest + 1) as usize - 1] += jobs as i64;
            }
        }
        for counts in [&mut too_small, &mut larger] {
            (1..counts.len()).rev().for_each(|above| counts[above - 1] += counts[above]);
        }
        let times = |(number, count): (usize, i64), each: i64| number as i64 * each * count;
        Self {
            by_room: too_small.into_iter().enumerate().map(|counted| times(counted, 1)).collect(),
            by_empty: larger.into_iter().enumerate().map(|counted| times(counted, i64::from(MILLI_GPU))).collect(),
        }
    }

    /// Returns the loss of a server whose GPUs have these rooms.
    pub(crate) fn of(&self, rooms: &[u32]) -> i64 {
        let empty = rooms.iter().filter(|&&room| room == MILLI_GPU).count();
        rooms.iter().map(|&room| self.by_room[room as usize]).sum::<i64>() + self.by_empty[empty]
    }

    /// Returns by how much the loss rises if a share of a GPU with that room is taken; the GPU is not empty.
    pub(crate) fn of_share(&self, room: u32, share: u32) -> i64 {
        self.by_room[(room - share) as usize] - self.by_room[room as usize]
    }

    /// Returns the same for an empty GPU, on a server with `empty` of them.
    pub(crate) fn of_opening(&self, empty: u32, share: u32) -> i64 {
        self.of_share(MILLI_GPU, share) + self.by_empty[empty as usize - 1] - self.by_empty[empty as usize]
    }

    /// Returns the same for whole GPUs, on a server with `empty` empty ones.
    pub(crate) fn of_gpus(&self, empty: u32, num_gpus: u32) -> i64 {
        let left = (empty - num_gpus) as usize;
        self.by_empty[left] - self.by_empty[empty as usize] - i64::from(num_gpus) * self.by_room[MILLI_GPU as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, GPU by GPU.
    fn fragmentation(demands: &[Want], rooms: &[u32]) -> i64 {
        let empty = rooms.iter().filter(|&&room| room == MILLI_GPU).count() as u32;
        let all: u32 = rooms.iter().sum();
        let lost = |&Want { num_gpus, share, usable, jobs }: &Want| {
            let needs = if share == 0 { MILLI_GPU } else { share };
            let runs = usable && if share == 0 { empty >= num_gpus } else { rooms.iter().any(|&room| room >= share) };
            let small: u32 = rooms.iter().filter(|&&room| room < needs).sum();
            i64::from(if runs { small } else { all }) * jobs as i64
        };
        demands.iter().map(lost).sum()
    }

    #[test]
    fn the_tables_say_what_the_definition_says() {
        let demands = [(1, 500, true, 3), (2, 0, true, 2), (1, 0, true, 5), (8, 0, true, 1), (1, 250, false, 7)]
            .map(|(num_gpus, share, usable, jobs)| Want { num_gpus, share, usable, jobs });
        let loss = Loss::new(&demands, 4);
        let rises = |before: &[u32], after: &[u32]| fragmentation(&demands, after) - fragmentation(&demands, before);
        for rooms in [&[700, 1000, 1000, 0][..], &[1000; 4], &[300], &[]] {
            assert_eq!(loss.of(rooms), fragmentation(&demands, rooms));
        }
        assert_eq!(loss.of_share(700, 300), rises(&[700, 1000, 1000, 0], &[400, 1000, 1000, 0]));
        assert_eq!(loss.of_opening(2, 300), rises(&[700, 1000, 1000, 0], &[700, 700, 1000, 0]));
        assert_eq!(loss.of_opening(1, 1), rises(&[1000], &[999]));
        assert_eq!(loss.of_gpus(4, 3), rises(&[1000; 4], &[0, 0, 0, 1000]));
        assert_eq!(loss.of_gpus(2, 2), rises(&[1000, 300, 1000], &[0, 300, 0]));
    }
}
