use super::*;
use ambulator_base::VirtAddr;

fn after(distances: &mut Distances, page: u64) -> Vec<u64> {
    let mut proposals = Proposals::default();
    distances.miss(&TlbMiss { page, frames: 1, pc: VirtAddr(0), served: None }, &mut proposals);
    proposals.pages().to_vec()
}

/// The sequences are computed by hand.
#[test]
fn distances_that_alternate_are_learnt_after_two_of_each() {
    let mut distances = Distances::new(&DistanceSpec::default());
    // Distances 4, 1, 4, 1: 4 is followed by 1 from page 105 on, 1 by 4 from page 109 on.
    let told: Vec<Vec<u64>> = [100, 104, 105, 109, 110].map(|page| after(&mut distances, page)).into();
    assert_eq!(told, [vec![], vec![], vec![], vec![110], vec![114]]);
    // Distance 9 is new; then 1 has followed 4 and 9 has followed 1.
    assert_eq!(after(&mut distances, 119), [0; 0]);
    assert_eq!(after(&mut distances, 120), [129, 124], "after 1: 9 was the latest, 4 the one before");
    distances.switch();
    assert_eq!(after(&mut distances, 121), [0; 0], "another address space");
}

#[test]
fn a_constant_distance_is_learnt_from_three_misses() {
    let mut distances = Distances::new(&DistanceSpec { slots: 1, ..DistanceSpec::default() });
    let told: Vec<Vec<u64>> = [10, 17, 24, 31].map(|page| after(&mut distances, page)).into();
    assert_eq!(told, [vec![], vec![], vec![], vec![38]], "the row is read before it learns");
    assert_eq!(after(&mut distances, 38), [45]);
    assert_eq!(after(&mut distances, 30), [0; 0], "-8 was never followed");
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    assert_eq!(DistanceSpec { entries: 64, ways: 5, slots: 2 }.invalid("tlb_distance").len(), 1);
    assert_eq!(DistanceSpec { slots: 9, ..DistanceSpec::default() }.invalid("tlb_distance").len(), 1);
    assert_eq!(DistanceSpec::default().invalid("tlb_distance"), []);
}
