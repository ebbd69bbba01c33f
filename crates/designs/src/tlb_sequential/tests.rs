use super::*;
use ambulator_base::VirtAddr;

fn after(spec: SequentialSpec, page: u64, frames: u64) -> Vec<u64> {
    let mut proposals = Proposals::default();
    let miss = TlbMiss { page, frames, pc: VirtAddr(0), served: None };
    Sequential(spec).miss(&miss, &mut proposals);
    proposals.pages().to_vec()
}

#[test]
fn the_next_pages_of_the_same_size_are_proposed() {
    let spec = |degree, both_sides| SequentialSpec { degree, both_sides };
    assert_eq!(after(SequentialSpec::default(), 100, 1), [101]);
    assert_eq!(after(spec(2, true), 100, 1), [101, 99, 102, 98]);
    assert_eq!(after(spec(3, false), 1024, 512), [1536, 2048, 2560]);
    assert_eq!(after(spec(2, true), 1, 1), [2, 0, 3], "nothing is below address 0");
}
