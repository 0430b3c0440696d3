//! Tests of the bandwidth of stays that share links.

use super::*;

fn parts(servers: &[u32]) -> Vec<(Server, u32)> {
    servers.iter().map(|&server| (Server::new(server), 1)).collect()
}

#[test]
fn stays_share_the_uplinks_that_they_cross() {
    let tier = |servers: u32, bandwidth: f64, inside| Tier {
        group: (0..8).map(|server| server / servers).collect(),
        bandwidth,
        contention_share: 1.0,
        degradation: 0.0,
        inside,
    };
    let tiers = [tier(2, 12.0, Some(100.0)), tier(4, 12.0, None)];
    let network = Network { inter_bandwidth: 20.0, contention_share: 1.0, degradation: 0.0, ..Network::default() };
    let mut fabric = Fabric::new(&network, &tiers, 8, true, false).expect("there are tiers");
    let (a, b, c) = (Slot::new(0), Slot::new(1), Slot::new(2));
    fabric.join(a, &parts(&[0, 2]), 1000);
    fabric.join(b, &parts(&[0, 1]), 1000); // in a domain
    fabric.join(c, &parts(&[1, 3, 4]), 500);
    let mut members = Vec::new();
    fabric.drain_changed(&mut members);
    members.sort_unstable();
    assert_eq!(members, [a, b, c]);
    // a meets c at the racks: 12 / 1.5; c meets a there, and nobody above.
    let got = |fabric: &mut Fabric, slot| {
        let own = fabric.update(slot).0;
        let got = (own.bandwidth, own.without);
        (got.0, got.1, fabric.most(slot))
    };
    assert_eq!(got(&mut fabric, a), (8.0, 20.0, 1.5));
    assert_eq!(got(&mut fabric, b), (100.0, 100.0, 0.0));
    assert_eq!(got(&mut fabric, c), (6.0, 20.0, 2.0));
    fabric.leave(a);
    members.clear();
    fabric.drain_changed(&mut members);
    assert_eq!(members, [c]);
    assert_eq!(got(&mut fabric, c), (12.0, 20.0, 2.0));
    fabric.leave(c);
    assert!(fabric.links.iter().all(|link| link.members.is_empty() && link.sum == 0));
}
