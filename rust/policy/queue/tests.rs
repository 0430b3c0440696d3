//! Tests the queues against a sorted list.

use super::{FairQueue, FixedQueue, KeyedQueue, OneLevel, WaitingQueue};
use crate::cluster::{FewestServers, Network};
use crate::ids::Job;
use crate::options::{Discipline, Options, Order};
use crate::setting::Setting;
use crate::trace::{FairShares, Jobs};
use proptest::prelude::*;

/// What a queue should hold: (promoted or not, key, job), sorted.
type Model = Vec<(bool, u64, Job)>;

fn check<L: WaitingQueue>(options: &Options, sizes: &[u32], keys: &[u8], steps: &[(u8, prop::sample::Index, u8)]) {
    let n = sizes.len();
    let zeros = vec![0.0; n];
    let estimate = |job: Job| f64::from(u32::from(keys[job.index()]) * 7 % 11);
    let duration: Vec<f64> = keys.iter().map(|&key| f64::from(key)).collect();
    let jobs = Jobs { submit: &zeros, num_gpus: sizes, duration: &duration, ..Jobs::default() };
    let (rows, few): (Vec<u32>, _) = ((0..n as u32).collect(), FewestServers::new(&[8]));
    let owner: Vec<u32> = keys.iter().map(|&key| u32::from(key)).collect();
    let setting = Setting {
        fair: (options.order == Order::Fairshare).then_some(FairShares {
            owner: &owner,
            share: &[1.0; 6],
            users: None,
        }),
        ..Setting::new(jobs, &rows, &[8], &few, Network::default(), options)
    };
    let mut queue = L::new(&setting, &|job| duration[job.index()]);
    for (at, &used) in owner.iter().enumerate().filter(|&(at, used)| !owner[..at].contains(used)) {
        queue.hold(Job::at(at), used, true, 0.0);
        queue.hold(Job::at(at), used, false, 1.0);
    }
    queue.renew(2.0);
    let mut model = Model::new();
    let key = |job: Job| match options.order {
        Order::Fifo | Order::Column => 0,
        Order::Smallest => u64::from(sizes[job.index()]),
        Order::Sjf | Order::Qssf | Order::Fairshare => u64::from(keys[job.index()]),
    };
    for (kind, index, bound) in steps {
        let job = Job::at(index.index(n));
        match model.iter().position(|entry| entry.2 == job) {
            None => {
                queue.push(job, key(job) as f64, || estimate(job));
                model.push((true, key(job), job));
            }
            Some(at) if *kind == 0 && options.aging.is_some() && model[at].0 => {
                queue.promote(job);
                model[at] = (false, 0, job);
            }
            Some(at) => {
                queue.remove(job);
                let (unpromoted, ..) = model.remove(at);
                if !unpromoted {
                    return; // a job that was promoted does not come back
                }
            }
        }
        model.sort_unstable();
        assert_eq!(queue.is_empty(), model.is_empty());
        assert_eq!(queue.has(job), model.iter().any(|entry| entry.2 == job));
        let mut listed: Vec<Job> = queue.jobs().collect();
        listed.sort_unstable();
        let mut expected: Vec<Job> = model.iter().map(|entry| entry.2).collect();
        expected.sort_unstable();
        assert_eq!(listed, expected);
        // All classes together, in order.
        let mut spots = Vec::new();
        for class in 0..queue.classes() {
            let mut spot = queue.first(class);
            while let Some(at) = spot {
                spots.push((at, class));
                spot = queue.next(class, at);
                let short = |estimate: f64| estimate <= f64::from(*bound);
                if options.queue == Discipline::Easy {
                    let behind = spots_behind(&queue, class, at);
                    let first = behind.into_iter().find(|&other| short(estimate(queue.job_at(other))));
                    assert_eq!(queue.next_short(class, at, short), first);
                }
            }
        }
        spots.sort_unstable();
        let order: Vec<Job> = spots.iter().map(|&(at, _)| queue.job_at(at)).collect();
        assert_eq!(order, model.iter().map(|entry| entry.2).collect::<Vec<_>>());
        for &(at, _) in &spots {
            for class in 0..queue.classes() {
                let first = spots.iter().find(|&&(other, c)| c == class && other > at);
                assert_eq!(queue.next_behind(class, at), first.map(|&(other, _)| other));
            }
        }
    }
}

fn spots_behind<L: WaitingQueue>(queue: &L, class: usize, spot: L::Spot) -> Vec<L::Spot> {
    std::iter::successors(queue.next(class, spot), |&at| queue.next(class, at)).collect()
}

proptest! {
    #[test]
    fn a_queue_is_a_sorted_list(
        jobs in prop::collection::vec((1u32..4, 0u8..6), 1..24),
        steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), 0u8..12), 1..60),
        order in 0usize..3, queue in 0usize..3, ages in any::<bool>(),
    ) {
        let (sizes, keys): (Vec<u32>, Vec<u8>) = jobs.into_iter().unzip();
        let options = Options {
            order: Order::ALL[order],
            queue: Discipline::ALL[queue],
            aging: ages.then_some(1.0),
            ..Options::default()
        };
        check::<FixedQueue>(&options, &sizes, &keys, &steps);
        let options = Options { order: Order::Qssf, ..options };
        check::<KeyedQueue<false>>(&options, &sizes, &keys, &steps);
        let options = Options { order: Order::Fairshare, ..options };
        check::<FairQueue<OneLevel>>(&options, &sizes, &keys, &steps);
    }
}
