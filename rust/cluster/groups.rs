//! Finds groups of servers by their room: the idle GPUs of a tree of servers, tiers and the whole cluster.
//!
//! Invariant: the room of a group is the sum of the rooms of its servers, at every level, and the index of a level has
//! each of its groups once, at its room. For pods of several GPUs the room of a server counts whole pods. For example,
//! with idle GPUs 1 0 | 2 4 on two racks of two servers the racks have a room of 1 and 6; for pods of 2 GPUs 0 and 6.
//!
//! A change of one server costs a search per level. Levels: servers, tiers from below, and last the whole cluster.

use super::Tier;
use crate::ds::OrderedBits;
use crate::ids::Form;
use crate::ids::Server;
use std::cmp::Reverse;
use std::sync::Arc;

/// A group of servers: a level, and a number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    level: usize,
    number: u32,
}

/// The groups of each level.
#[derive(Debug)]
struct Tree {
    levels: Vec<Level>,
}

/// The groups of one level.
#[derive(Debug)]
struct Level {
    /// The group above each.
    above: Vec<u32>,
    /// The groups below: those of group g are `below[first[g]..first[g + 1]]`, ascending; none below servers.
    below: Vec<u32>,
    first: Vec<u32>,
}

impl Level {
    /// Makes a level from the group of each group below.
    fn new(of_below: &[u32]) -> Self {
        let groups = of_below.iter().max().map_or(0, |&most| most as usize + 1);
        let mut first = vec![0; groups + 1];
        of_below.iter().for_each(|&group| first[group as usize + 1] += 1);
        for group in 0..groups {
            first[group + 1] += first[group];
        }
        let (mut next, mut below) = (first.clone(), vec![0; of_below.len()]);
        for (number, &group) in (0..).zip(of_below) {
            below[next[group as usize] as usize] = number;
            next[group as usize] += 1;
        }
        Self { above: Vec::new(), below, first }
    }

    fn below(&self, group: u32) -> &[u32] {
        let range = |at: usize| self.first[at] as usize;
        &self.below[range(group as usize)..range(group as usize + 1)]
    }
}

impl Tree {
    /// Numbers the groups that have servers, in their order. `tiers`: of the same servers.
    fn new(tiers: &[Tier], servers: usize) -> Self {
        let mut levels = vec![Level { above: Vec::new(), below: Vec::new(), first: vec![0; servers + 1] }];
        // The first server of each group of the level below.
        let mut heads: Vec<usize> = (0..servers).collect();
        let whole = vec![0; servers];
        for group in tiers.iter().map(|tier| &tier.group).chain([&whole]) {
            let mut numbers: Vec<u32> = group.clone();
            numbers.sort_unstable();
            numbers.dedup();
            let number = |server: &usize| numbers.partition_point(|&other| other < group[*server]) as u32;
            let above: Vec<u32> = heads.iter().map(number).collect();
            let level = Level::new(&above);
            heads = (0..numbers.len() as u32).map(|group| heads[level.below(group)[0] as usize]).collect();
            if let Some(last) = levels.last_mut() {
                last.above = above;
            }
            levels.push(level);
        }
        Self { levels }
    }
}

/// The rooms for pods of one size.
#[derive(Clone, Debug)]
struct Rooms {
    /// GPUs of a pod.
    pod: u32,
    /// Those of each level but the last.
    levels: Vec<Room>,
    /// That of the whole cluster.
    total: u64,
}

/// The rooms of one level.
#[derive(Clone, Debug)]
struct Room {
    of: Vec<u32>,
    /// Groups in order of (room, number): member `room * groups + number`.
    index: OrderedBits,
}

impl Room {
    fn new(of: Vec<u32>, most: u32) -> Self {
        let mut index = OrderedBits::new(of.len() * (most as usize + 1));
        of.iter().enumerate().for_each(|(number, &room)| index.insert(room as usize * of.len() + number));
        Self { of, index }
    }

    fn set(&mut self, number: u32, room: u32) {
        let (at, groups) = (number as usize, self.of.len());
        let was = std::mem::replace(&mut self.of[at], room);
        self.index.remove(was as usize * groups + at);
        self.index.insert(room as usize * groups + at);
    }

    /// Returns the group with the least room that is at least `room`, the lowest on ties.
    fn tightest(&self, room: u64) -> Option<u32> {
        let from = usize::try_from(room).ok()?.checked_mul(self.of.len())?;
        self.index.next(from).map(|member| (member % self.of.len()) as u32)
    }

    /// Returns the groups with at least `room`, least room first, then by number.
    fn from(&self, room: u64) -> impl Iterator<Item = u32> + '_ {
        let from = usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(self.of.len());
        self.index.range(from, usize::MAX).map(|member| (member % self.of.len()) as u32)
    }

    /// Returns the groups with room, most room first, then by number.
    fn roomiest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let groups = self.of.len();
        // The members of the present room that are left, and those of less room.
        let (mut next, mut end, mut less) = (0, 0, usize::MAX);
        std::iter::from_fn(move || {
            let mut found = self.index.next(next).filter(|&found| found < end);
            if found.is_none() {
                less = self.index.prev(less)? / groups * groups;
                end = less + groups;
                found = self.index.next(less).filter(|_| less > 0);
            }
            next = found? + 1;
            Some((found? % groups) as u32)
        })
    }
}

/// The room of every group, for each size of pods that occurs.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    tree: Arc<Tree>,
    rooms: Vec<Rooms>,
    /// Whether gangs are bound to tiers or segments: then idle GPUs at other times are grouped, too.
    pub(crate) binds: bool,
}

impl Groups {
    /// Makes the groups of some servers. `tiers`: of these servers. `forms`: those that occur.
    pub(crate) fn new(tiers: &[Tier], sizes: &[u32], idle: &[u32], forms: &[Form]) -> Self {
        let tree = Arc::new(Tree::new(tiers, sizes.len()));
        let of_pod = |&pod: &u32| {
            let whole = |gpus: &[u32]| -> Vec<u32> { gpus.iter().map(|gpus| gpus - gpus % pod).collect() };
            let (mut most, mut room) = (whole(sizes), whole(idle));
            let mut levels = Vec::new();
            for (at, level) in tree.levels.iter().enumerate() {
                if at > 0 {
                    let sum = |of: &[u32]| -> Vec<u32> {
                        let groups = 0..level.first.len() as u32 - 1;
                        groups.map(|group| level.below(group).iter().map(|&own| of[own as usize]).sum()).collect()
                    };
                    (most, room) = (sum(&most), sum(&room));
                }
                levels.push(Room::new(room.clone(), most.iter().copied().max().unwrap_or(0)));
            }
            levels.pop();
            Rooms { pod, levels, total: room.iter().map(|&room| u64::from(room)).sum() }
        };
        let mut pods: Vec<u32> = forms.iter().map(|form| form.pod).collect();
        pods.sort_unstable();
        pods.dedup();
        Self { rooms: pods.iter().map(of_pod).collect(), tree, binds: forms.iter().any(Form::is_bound) }
    }

    /// Notes that other GPUs of a server are idle.
    #[inline]
    pub(crate) fn set(&mut self, server: Server, was: u32, idle: u32) {
        for rooms in &mut self.rooms {
            let pod = rooms.pod;
            let (was, room) = if pod == 1 { (was, idle) } else { (was - was % pod, idle - idle % pod) };
            if was == room {
                continue;
            }
            let mut number = server.number();
            for (level, above) in rooms.levels.iter_mut().zip(&self.tree.levels) {
                level.set(number, level.of[number as usize] + room - was);
                number = above.above[number as usize];
            }
            rooms.total = rooms.total + u64::from(room) - u64::from(was);
        }
    }

    /// Returns the rooms for pods of one size.
    fn rooms(&self, pod: u32) -> Option<&Rooms> {
        self.rooms.iter().find(|rooms| rooms.pod == pod)
    }

    /// The level of the whole cluster.
    fn top(&self) -> usize {
        self.tree.levels.len() - 1
    }

    fn whole(&self) -> Group {
        Group { level: self.top(), number: 0 }
    }

    /// Returns the group in which a gang finds place; `None` if there is none.
    pub(crate) fn group_for(&self, num_gpus: u32, form: Form) -> Option<Group> {
        let rooms = self.rooms(form.pod)?;
        let need = u64::from(num_gpus);
        if rooms.total < need {
            return None;
        }
        if form.segment > 0 {
            return self.regions(rooms, need, form).find(|&region| self.holds_segments(rooms, region, num_gpus, form));
        }
        let last = form.strict_level().unwrap_or(self.top());
        let tightest = |level: usize| Some(Group { level, number: rooms.levels.get(level)?.tightest(need)? });
        let found = (0..rooms.levels.len().min(last + 1)).find_map(tightest);
        found.or_else(|| (last == self.top()).then(|| self.whole()))
    }

    /// Returns the groups that may hold all segments of a gang, in the order in which they are tried.
    fn regions<'a>(&'a self, rooms: &'a Rooms, need: u64, form: Form) -> impl Iterator<Item = Group> + 'a {
        let top = self.top();
        let (from, to) = match form.level() {
            None => (top, top),
            Some(level) if form.strict => (level, level + 1),
            Some(level) => (level, top),
        };
        let of_level = move |level: usize| rooms.levels[level].from(need).map(move |number| Group { level, number });
        (from..to).flat_map(of_level).chain((to == top && !form.strict).then(|| self.whole()))
    }

    /// Returns the room of a group.
    fn room(&self, rooms: &Rooms, group: Group) -> u64 {
        rooms.levels.get(group.level).map_or(rooms.total, |level| u64::from(level.of[group.number as usize]))
    }

    /// Returns the parts of the groups of a level that lie in a group and hold a segment.
    fn parts(&self, rooms: &Rooms, region: Group, form: Form) -> Vec<Group> {
        let level = form.segment_level();
        let mut parts = Vec::new();
        if level >= region.level {
            parts.push(region);
        } else if region.level == self.top() {
            let found = rooms.levels[level].from(u64::from(form.segment));
            parts.extend(found.map(|number| Group { level, number }));
        } else {
            parts.push(region);
            for _ in level..region.level {
                let below = |group: &Group| {
                    let level = group.level - 1;
                    self.below(*group).iter().map(move |&number| Group { level, number })
                };
                parts = parts.iter().flat_map(below).collect();
            }
        }
        parts.retain(|&part| self.room(rooms, part) >= u64::from(form.segment));
        parts
    }

    fn below(&self, group: Group) -> &[u32] {
        self.tree.levels[group.level].below(group.number)
    }

    /// Returns whether every segment of a gang finds place in a group.
    fn holds_segments(&self, rooms: &Rooms, region: Group, num_gpus: u32, form: Form) -> bool {
        let parts = self.parts(rooms, region, form);
        let found: u64 = parts.iter().map(|&part| self.room(rooms, part) / u64::from(form.segment)).sum();
        found >= u64::from(num_gpus / form.segment)
    }

    /// Returns the groups that the segments of a gang go to and how many go to each, in order: a group that holds one
    /// stays the tightest until it holds no more.
    pub(crate) fn segments(&self, region: Group, num_gpus: u32, form: Form) -> Vec<(Group, u32)> {
        let Some(rooms) = self.rooms(form.pod) else { return Vec::new() };
        let mut parts = self.parts(rooms, region, form);
        parts.sort_unstable_by_key(|&part| (self.room(rooms, part), part.number));
        let mut left = num_gpus / form.segment;
        let mut share = |part: Group| {
            let held = (self.room(rooms, part) / u64::from(form.segment)).min(u64::from(left)) as u32;
            left -= held;
            (part, held)
        };
        parts.into_iter().map(&mut share).take_while(|&(_, held)| held > 0).collect()
    }

    /// Chooses GPUs of a group, which has as many: (server, GPUs).
    pub(crate) fn fill(&self, group: Group, num_gpus: u32, pod: u32, chosen: &mut Vec<(Server, u32)>) {
        if let Some(rooms) = self.rooms(pod) {
            self.fill_from(rooms, group, num_gpus, chosen);
        }
    }

    fn fill_from(&self, rooms: &Rooms, mut group: Group, num_gpus: u32, chosen: &mut Vec<(Server, u32)>) {
        let mut need = num_gpus;
        while group.level > 0 {
            let level = group.level - 1;
            let room = &rooms.levels[level];
            let at = |number: u32| room.of[number as usize];
            let is_whole = group.level == self.top();
            let below = if is_whole { &[] } else { self.below(group) };
            let tightest = |numbers: &[u32], need: u32| {
                let holding = numbers.iter().copied().filter(|&number| at(number) >= need);
                holding.min_by_key(|&number| (at(number), number))
            };
            let found = if is_whole { room.tightest(u64::from(need)) } else { tightest(below, need) };
            if let Some(number) = found {
                group = Group { level, number };
                continue;
            }
            if is_whole {
                let mut last = u32::MAX;
                for number in room.roomiest_first() {
                    if at(number) >= need {
                        // Of the tightest room the first ones may be taken; then all with more room are.
                        let found = room.tightest(u64::from(need)).filter(|&found| at(found) < last);
                        group = Group { level, number: found.unwrap_or(number) };
                        break;
                    }
                    (last, need) = (at(number), need - at(number));
                    self.take_all(rooms, Group { level, number }, chosen);
                    if need == 0 {
                        return;
                    }
                }
                continue;
            }
            let mut left = below.to_vec();
            left.sort_unstable_by_key(|&number| (Reverse(at(number)), number));
            for (taken, &number) in left.iter().enumerate() {
                if at(number) >= need {
                    group = Group { level, number: tightest(&left[taken..], need).unwrap_or(number) };
                    break;
                }
                need -= at(number);
                self.take_all(rooms, Group { level, number }, chosen);
                if need == 0 {
                    return;
                }
            }
        }
        chosen.push((Server::new(group.number), need));
    }

    /// Chooses all GPUs of a group that have room.
    fn take_all(&self, rooms: &Rooms, group: Group, chosen: &mut Vec<(Server, u32)>) {
        let room = self.room(rooms, group) as u32;
        if group.level > 0 && room > 0 {
            self.below(group)
                .iter()
                .for_each(|&number| self.take_all(rooms, Group { level: group.level - 1, number }, chosen));
        } else if room > 0 {
            chosen.push((Server::new(group.number), room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tier(group: Vec<u32>) -> Tier {
        Tier { group, bandwidth: 1.0, contention_share: 1.0, degradation: 0.0, inside: None }
    }

    proptest! {
        /// Groups by name: of each server its rack, of each rack its pod.
        #[test]
        fn groups_agree_with_sums(
            servers in prop::collection::vec((1u32..6, 0u32..5), 1..14),
            pods in prop::collection::vec(0u32..3, 5),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..6), 0..40),
            gpus in 1u32..20, pod in 1u32..4,
        ) {
            let sizes: Vec<u32> = servers.iter().map(|server| server.0).collect();
            let racks: Vec<u32> = servers.iter().map(|server| server.1).collect();
            let tiers = [tier(racks.clone()), tier(racks.iter().map(|&rack| pods[rack as usize]).collect())];
            let form = Form { pod, ..Form::default() };
            let mut groups = Groups::new(&tiers, &sizes, &sizes, &[form, Form::default()]);
            let mut idle = sizes.clone();
            for (at, left) in changes {
                let server = at.index(sizes.len());
                let left = left.min(sizes[server]);
                groups.set(Server::at(server), idle[server], left);
                idle[server] = left;
            }
            let rooms: Vec<u32> = idle.iter().map(|idle| idle - idle % pod).collect();
            let levels = [(0..sizes.len() as u32).collect(), tiers[0].group.clone(), tiers[1].group.clone()];
            let num_gpus = gpus * pod;
            let slow = levels.iter().enumerate().find_map(|(level, of)| {
                let number = |group: u32| of.iter().filter(|&&other| other < group).collect::<std::collections::BTreeSet<_>>().len();
                let room = |group: u32| of.iter().zip(&rooms).filter(|own| *own.0 == group).map(|own| *own.1).sum::<u32>();
                let holding = of.iter().filter(|&&group| room(group) >= num_gpus);
                holding.map(|&group| (room(group), number(group) as u32)).min().map(|(_, number)| (level, number))
            });
            let enough = rooms.iter().sum::<u32>() >= num_gpus;
            let found = groups.group_for(num_gpus, form);
            let group = |(level, number)| Group { level, number };
            prop_assert_eq!(found, slow.or(enough.then_some((3, 0))).map(group));
            let mut chosen = Vec::new();
            if let Some(found) = found {
                groups.fill(found, num_gpus, pod, &mut chosen);
                prop_assert_eq!(chosen.iter().map(|part| part.1).sum::<u32>(), num_gpus);
                prop_assert!(chosen.iter().all(|part| part.1 % pod == 0 && part.1 <= idle[part.0.index()]));
            }
        }
    }

    #[test]
    fn the_cluster_gives_its_roomiest_groups_wholly() {
        // The two of 5 GPUs tie, and what is missing then is the last server's.
        let groups = Groups::new(&[], &[5; 4], &[2, 5, 5, 3], &[Form::default()]);
        let mut chosen = Vec::new();
        groups.fill(groups.whole(), 8, 1, &mut chosen);
        assert_eq!(chosen, [(Server::new(1), 5), (Server::new(3), 3)]);
    }
}
