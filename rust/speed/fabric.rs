//! Computes the bandwidth of spanning jobs in a network of tiers (docs/tiers.md).
//!
//! A spanning job crosses the links of its servers and the uplink of each group that holds some of its GPUs but not all.
//! Invariant: `sum` of a link adds up the flows of the stays that cross it, in thousandths by intensity, and `members`
//! names each of them with its cell, whose place in that stay's own list is that of the link, where the place here is.
//! So a stay joins and leaves in its number of links. For example, two jobs of one flow and intensity 1 on an uplink
//! give it a sum of 2,000.
//!
//! A link is *quiet* while it leaves every member at least what that one has of its own; then nobody is asked about it.
//! Else the cell of each member has what the link leaves it, so that only those are looked at whom it holds, or held,
//! the most. The cells of a stay lie together, those of its uplinks first, so that their least is found fast. How many
//! contenders a stay met is read from the peaks of the sum since it joined: sums of 2, 5, 3 with a join before each are
//! kept as 5, up to the second, and 3, up to the third.

use crate::cluster::{Network, Tier};
use crate::ds::least_of;
use crate::ids::{Server, Slot};

/// More than what rounding changes of a bandwidth, as a part of it.
const ROUNDING: f64 = 1e-9;

/// The links of one kind: those of the servers, or the uplinks of a tier.
#[derive(Clone, Debug)]
struct Level {
    /// The group of each server; empty for the links of the servers.
    group: Vec<u32>,
    /// The number of its first link.
    first: usize,
    capacity: f64,
    contention_share: f64,
    degradation: f64,
    /// The bandwidth of a gang in one of its groups.
    inside: Option<f64>,
}

impl Level {
    /// Returns whether no member of a link may have less of it than it has of its own.
    fn is_quiet(&self, link: &Link) -> bool {
        let flows = f64::from(link.widest);
        let k = f64::max(flows, self.contention_share * (flows + link.sum as f64 / 1000.0));
        self.capacity >= link.fastest * k * (1.0 + self.degradation) * (1.0 + ROUNDING)
    }

    /// Returns the bandwidth that `others`, in thousandths, leave so many flows at one of its links.
    #[inline]
    fn left_to(&self, flows: u32, others: u64) -> f64 {
        let contenders = (1000 * u64::from(flows) + others) as f64 / 1000.0;
        let flows = f64::from(flows);
        let k = f64::max(flows, self.contention_share * contenders);
        self.capacity * flows / (k + self.degradation * (k - flows))
    }
}

/// A link.
#[derive(Clone, Debug, Default)]
struct Link {
    /// Flows that cross it, in thousandths, each times its job's intensity.
    sum: u64,
    members: Vec<Member>,
    /// What is seldom asked of each of them.
    entries: Vec<Entry>,
    /// Flows and weight of the members, if all have the same, and what the link leaves each.
    alike: Option<(u32, u64)>,
    left: f64,
    is_changed: bool,
    is_quiet: bool,
    /// Of the members since it was last empty: the most flows, and the most bandwidth of its own that a flow had.
    widest: u32,
    fastest: f64,
    /// How often a stay joined.
    joins: u64,
    /// The greatest sums: each with how many joins were before it, both from the first to the latest.
    peaks: Vec<(u64, u64)>,
}

impl Link {
    /// Notes the sum of an instant.
    fn note_sum(&mut self) {
        while self.peaks.pop_if(|peak| peak.1 <= self.sum).is_some() {}
        if self.peaks.last().is_none_or(|peak| peak.0 < self.joins) {
            self.peaks.push((self.joins, self.sum));
        }
    }

    /// Returns the most contenders that a member met, in thousandths; 0 before the first instant.
    fn most(&self, place: u32) -> u64 {
        let own = &self.entries[place as usize];
        let first = self.peaks.partition_point(|peak| peak.0 < own.since);
        self.peaks.get(first).map_or(0, |peak| 1000 * u64::from(own.flows) + peak.1 - own.weight)
    }
}

/// A stay that crosses a link, and the cell that has what the link leaves it.
#[derive(Clone, Copy, Debug)]
struct Member {
    slot: Slot,
    cell: u32,
}

/// How a stay crosses a link.
#[derive(Clone, Copy, Debug)]
struct Entry {
    flows: u32,
    /// `flows` in thousandths, times its job's intensity.
    weight: u64,
    /// Which join it was.
    since: u64,
}

/// A link of a stay.
#[derive(Clone, Copy, Debug)]
struct Crossed {
    link: u32,
    /// The stay's place among the link's members.
    place: u32,
    level: u32,
}

impl Crossed {
    fn new(link: u32, level: u32) -> Self {
        Self { link, place: 0, level }
    }
}

/// What a stay gets of the links that it crosses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crossing {
    /// Uplinks come first, from below.
    links: Vec<Crossed>,
    uplinks: usize,
    /// The first of its cells, and how many there are room for.
    first_cell: usize,
    room: usize,
    flows: u32,
    /// `flows` in thousandths, times its job's intensity.
    weight: u64,
    /// Its bandwidth, bytes/s, if nobody else were there and no uplink.
    pub(crate) own: f64,
    /// Its bandwidth, bytes/s; `without`: if there were no uplinks.
    pub(crate) bandwidth: f64,
    pub(crate) without: f64,
    /// The lowest tier whose uplink leaves it the least, where one leaves it less than all else: 0 for the first tier.
    pub(crate) tier: usize,
    /// The part of its time with progress that its uplinks cost, and how much such time was counted so far (machine
    /// time).
    pub(crate) share: f64,
    pub(crate) counted: f64,
    /// The time of a unit of work, s, with `without`; 0 where that is not known yet.
    pub(crate) apart: f64,
    pub(crate) gpus: u32,
    /// What its uplinks cost so far, s, and whether others, or an uplink, ever left it less than its own bandwidth.
    pub(crate) cost: f64,
    pub(crate) slowed: bool,
}

/// What is asked of a stay as often as one of its links changes.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    /// Those of its crossing.
    bandwidth: f64,
    without: f64,
    /// Which drain took it last.
    drain: u64,
}

/// All links, and the stays that cross them.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    levels: Vec<Level>,
    links: Vec<Link>,
    intra: f64,
    inter: f64,
    gpu_nics: bool,
    coupled: bool,
    /// By slot.
    crossings: Vec<Crossing>,
    least: Vec<Least>,
    /// What each link leaves each stay that crosses it, bytes/s, at least where the link is quiet; infinite until that
    /// is worked out.
    cells: Vec<f64>,
    changed: Vec<u32>,
    /// Stays that joined since the last drain.
    joined: Vec<Slot>,
    drains: u64,
    groups: Vec<(u32, u32)>,
}

/// The thousandths of a contender that a job is.
pub(crate) fn thousandths(intensity: f64) -> u64 {
    (1000.0 * intensity).round_ties_even() as u64
}

impl Fabric {
    /// Returns the links between servers; `None` where the spanning jobs on each server say it all.
    ///
    /// `coupled`: whether jobs slow each other down; otherwise only uplinks matter, which count who crosses them.
    /// `weighed`: whether jobs have intensities. Where xi1 of the network is 0, nobody slows anybody.
    pub(crate) fn new(
        network: &Network,
        tiers: &[Tier],
        servers: usize,
        coupled: bool,
        weighed: bool,
    ) -> Option<Box<Self>> {
        if tiers.is_empty() && !(coupled && (network.gpu_nics || weighed)) {
            return None;
        }
        let mut levels = vec![Level {
            group: Vec::new(),
            first: 0,
            capacity: network.inter_bandwidth,
            contention_share: network.contention_share,
            degradation: network.degradation,
            inside: None,
        }];
        let mut links = if network.gpu_nics { 0 } else { servers };
        let shares = network.contention_share > 0.0;
        for tier in tiers {
            levels.push(Level {
                group: tier.group.clone(),
                first: links,
                capacity: tier.bandwidth,
                contention_share: if shares { tier.contention_share } else { 0.0 },
                degradation: tier.degradation,
                inside: tier.inside,
            });
            links += tier.groups();
        }
        Some(Box::new(Self {
            levels,
            links: vec![Link::default(); links],
            intra: network.intra_bandwidth,
            inter: network.inter_bandwidth,
            gpu_nics: network.gpu_nics,
            coupled,
            crossings: Vec::new(),
            least: Vec::new(),
            cells: Vec::new(),
            changed: Vec::new(),
            joined: Vec::new(),
            drains: 0,
            groups: Vec::new(),
        }))
    }

    /// Adds a spanning stay. `thousandths`: by its job's intensity.
    pub(crate) fn join(&mut self, slot: Slot, parts: &[(Server, u32)], thousandths: u64) {
        if self.crossings.len() <= slot.index() {
            self.crossings.resize(slot.index() + 1, Crossing::default());
            self.least.resize(slot.index() + 1, Least::default());
        }
        let mut groups = std::mem::take(&mut self.groups);
        let before = &mut self.crossings[slot.index()];
        let (links, first_cell, room) = (std::mem::take(&mut before.links), before.first_cell, before.room);
        let mut crossing = self.crossing_of(parts, thousandths, links, &mut groups);
        self.groups = groups;
        (crossing.first_cell, crossing.room) = (first_cell, room);
        if crossing.links.len() > room {
            crossing.room = crossing.links.len().next_power_of_two();
            crossing.first_cell = self.cells.len();
            self.cells.resize(self.cells.len() + crossing.room, f64::INFINITY);
        }
        let Crossing { links, weight, flows, own, first_cell, .. } = &mut crossing;
        self.cells[*first_cell..][..links.len()].fill(f64::INFINITY);
        for (at, crossed) in links.iter_mut().enumerate() {
            let link = &mut self.links[crossed.link as usize];
            crossed.place = link.members.len() as u32;
            link.joins += 1;
            link.alike = link.alike.filter(|&alike| alike == (*flows, *weight));
            if link.members.is_empty() {
                link.alike = Some((*flows, *weight));
            }
            link.members.push(Member { slot, cell: (*first_cell + at) as u32 });
            link.entries.push(Entry { flows: *flows, weight: *weight, since: link.joins });
            link.sum += *weight;
            link.widest = link.widest.max(*flows);
            link.fastest = link.fastest.max(*own / f64::from(*flows));
            Self::note(&mut self.changed, link, crossed.link);
        }
        self.crossings[slot.index()] = crossing;
        let least = &mut self.least[slot.index()];
        (least.bandwidth, least.without) = (f64::INFINITY, f64::INFINITY);
        self.joined.push(slot);
    }

    /// Returns the links of a gang, in `links`, and what it gets of them alone.
    fn crossing_of(
        &self,
        parts: &[(Server, u32)],
        thousandths: u64,
        mut links: Vec<Crossed>,
        groups: &mut Vec<(u32, u32)>,
    ) -> Crossing {
        links.clear();
        let domain = self.uplinks(parts, &mut links, groups);
        let uplinks = links.len();
        if !self.gpu_nics && domain.is_none() {
            links.extend(parts.iter().map(|part| Crossed::new(part.0.number(), 0)));
        }
        let flows = if self.gpu_nics { parts.iter().map(|part| part.1).min().unwrap_or(1) } else { 1 };
        let nic = if self.gpu_nics { self.intra.min(self.inter * f64::from(flows)) } else { self.inter };
        let own = domain.map_or(nic, |inside| inside.min(self.intra));
        let weight = u64::from(flows) * thousandths;
        let gpus = parts.iter().map(|part| part.1).sum();
        Crossing { links, uplinks, flows, weight, gpus, own, bandwidth: own, without: own, ..Crossing::default() }
    }

    /// Returns the bandwidth that a gang would get there, bytes/s, were it there and not in `own`.
    pub(crate) fn would_leave(&self, own: Option<Slot>, parts: &[(Server, u32)], thousandths: u64) -> f64 {
        let crossing = self.crossing_of(parts, thousandths, Vec::new(), &mut Vec::new());
        let before = own.map(|slot| &self.crossings[slot.index()]);
        let left = |crossed: &Crossed| {
            let away = before.filter(|own| own.links.iter().any(|other| other.link == crossed.link));
            let others = self.links[crossed.link as usize].sum - away.map_or(0, |own| own.weight);
            self.levels[crossed.level as usize].left_to(crossing.flows, others)
        };
        crossing.links.iter().map(left).fold(crossing.own, f64::min)
    }

    /// Adds the uplinks that a gang crosses. Returns the bandwidth inside its domain, if it lies in one.
    fn uplinks(&self, parts: &[(Server, u32)], links: &mut Vec<Crossed>, groups: &mut Vec<(u32, u32)>) -> Option<f64> {
        groups.clear();
        groups.extend(parts.iter().map(|part| (0, part.0.number())));
        for (number, level) in self.levels.iter().enumerate().skip(1) {
            if groups.len() > 1 {
                groups.iter_mut().for_each(|own| own.0 = level.group[own.1 as usize]);
                groups.sort_unstable();
                groups.dedup_by_key(|own| own.0);
            }
            if groups.len() > 1 {
                let crossed = |own: &(u32, u32)| Crossed::new(level.first as u32 + own.0, number as u32);
                links.extend(groups.iter().map(crossed));
            } else if level.inside.is_some() {
                return level.inside;
            }
        }
        None
    }

    /// Removes a spanning stay.
    pub(crate) fn leave(&mut self, slot: Slot) {
        let links = std::mem::take(&mut self.crossings[slot.index()].links);
        let weight = self.crossings[slot.index()].weight;
        for &Crossed { link: number, place, .. } in &links {
            let link = &mut self.links[number as usize];
            let place = place as usize;
            link.members.swap_remove(place);
            link.entries.swap_remove(place);
            link.sum -= weight;
            if link.members.is_empty() {
                (link.widest, link.fastest) = (0, 0.0);
                link.peaks.clear();
            }
            let moved = link.members.get(place).copied();
            Self::note(&mut self.changed, link, number);
            if let Some(other) = moved {
                let other_crossing = &mut self.crossings[other.slot.index()];
                other_crossing.links[other.cell as usize - other_crossing.first_cell].place = place as u32;
            }
        }
        self.crossings[slot.index()].links = links;
        self.joined.retain(|&joined| joined != slot);
    }

    fn note(changed: &mut Vec<u32>, link: &mut Link, number: u32) {
        if !std::mem::replace(&mut link.is_changed, true) {
            changed.push(number);
        }
    }

    /// Moves the stays to `members` that joined since the last call, or whose bandwidth may have changed, each once.
    pub(crate) fn drain_changed(&mut self, members: &mut Vec<Slot>) {
        self.drains += 1;
        let Self { changed, links, joined, drains, levels, least, cells, coupled, .. } = self;
        let mut take = |slot: Slot, own: &mut Least| {
            if std::mem::replace(&mut own.drain, *drains) != *drains {
                members.push(slot);
            }
        };
        joined.drain(..).for_each(|slot| take(slot, &mut least[slot.index()]));
        for number in changed.drain(..) {
            let at = levels.partition_point(|level| level.first <= number as usize) - 1;
            let (level, link) = (&levels[at], &mut links[number as usize]);
            link.is_changed = false;
            if at > 0 {
                link.note_sum();
            }
            let is_quiet = !*coupled || level.is_quiet(link);
            let was_quiet = std::mem::replace(&mut link.is_quiet, is_quiet);
            if was_quiet && is_quiet {
                continue;
            }
            // Of equal uplinks the lower one counts, so that it must be noticed too.
            let mut look = |slot: Slot, least_left: f64| {
                let own = &mut least[slot.index()];
                if least_left <= if at == 0 { own.without } else { own.bandwidth } {
                    take(slot, own);
                }
            };
            if let Some((flows, weight)) = link.alike {
                let left = level.left_to(flows, link.sum.saturating_sub(weight));
                let before = std::mem::replace(&mut link.left, left);
                // If that is as before, only those who joined are to know it.
                let least_left = if before == left { f64::INFINITY } else { f64::min(before, left) };
                for own in &link.members {
                    cells[own.cell as usize] = left;
                    look(own.slot, least_left);
                }
            } else {
                for (own, entry) in link.members.iter().zip(&link.entries) {
                    let left = level.left_to(entry.flows, link.sum - entry.weight);
                    let before = std::mem::replace(&mut cells[own.cell as usize], left);
                    if before != left {
                        look(own.slot, f64::min(before, left));
                    }
                }
            }
        }
    }

    /// Computes anew what a stay gets. Returns its state, and whether it gets another bandwidth, with its uplinks or
    /// without, or has just joined.
    pub(crate) fn update(&mut self, slot: Slot) -> (&mut Crossing, bool) {
        let own = &mut self.crossings[slot.index()];
        let (uplinks, others) = self.cells[own.first_cell..][..own.links.len()].split_at(own.uplinks);
        own.without = f64::min(own.own, least_of(others));
        let left = least_of(uplinks);
        own.bandwidth = f64::min(own.without, left);
        if left < own.without
            && let Some(at) = uplinks.iter().position(|&other| other == left)
        {
            own.tier = own.links[at].level as usize - 1;
        }
        let least = &mut self.least[slot.index()];
        if least.without != own.without {
            own.apart = 0.0;
        }
        let changed = (least.bandwidth, least.without) != (own.bandwidth, own.without);
        (least.bandwidth, least.without) = (own.bandwidth, own.without);
        (own, changed)
    }

    /// Returns the most contenders that a stay met at an uplink; 0 where it crosses none.
    pub(crate) fn most(&self, slot: Slot) -> f64 {
        let met =
            self.uplinks_crossed(slot).iter().map(|crossed| self.links[crossed.link as usize].most(crossed.place));
        met.max().map_or(0.0, |most| most as f64 / 1000.0)
    }

    /// Returns the numbers of all uplinks: of each tier from which on, and how many there are.
    pub(crate) fn uplink_ranges(&self) -> Vec<std::ops::Range<usize>> {
        let firsts = self.levels.iter().skip(1).map(|level| level.first);
        let ends = self.levels.iter().skip(2).map(|level| level.first).chain([self.links.len()]);
        firsts.zip(ends).map(|(first, end)| first..end).collect()
    }

    /// Returns the numbers of the uplinks that a stay crosses.
    pub(crate) fn uplinks_of(&self, slot: Slot) -> impl Iterator<Item = u32> + '_ {
        self.uplinks_crossed(slot).iter().map(|crossed| crossed.link)
    }

    fn uplinks_crossed(&self, slot: Slot) -> &[Crossed] {
        let own = &self.crossings[slot.index()];
        &own.links[..own.uplinks]
    }

    /// Returns the stays that cross a link, each with its flows.
    pub(crate) fn members(&self, link: u32) -> impl Iterator<Item = (Slot, u32)> + '_ {
        let Link { members, entries, .. } = &self.links[link as usize];
        members.iter().zip(entries).map(|(own, entry)| (own.slot, entry.flows))
    }

    /// Returns the bandwidth of a stay if nobody else were there and no uplink, bytes/s.
    pub(crate) fn own(&self, slot: Slot) -> f64 {
        self.crossings[slot.index()].own
    }

    /// Returns what a stay gets.
    pub(crate) fn crossing(&mut self, slot: Slot) -> &mut Crossing {
        &mut self.crossings[slot.index()]
    }
}

#[cfg(test)]
mod tests;
