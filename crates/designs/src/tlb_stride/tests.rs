use super::*;
use ambulator_base::VirtAddr;

fn after(strides: &mut Strides, pc: u64, page: u64) -> Vec<u64> {
    let mut proposals = Proposals::default();
    strides.miss(&TlbMiss { page, frames: 1, pc: VirtAddr(pc), served: None }, &mut proposals);
    proposals.pages().to_vec()
}

/// The sequences are computed by hand.
#[test]
fn a_stride_is_used_once_it_is_confirmed_twice() {
    let mut strides = Strides::new(&StrideSpec::default());
    let told: Vec<Vec<u64>> = [100, 104, 108, 112, 117, 122, 127, 132].map(|page| after(&mut strides, 7, page)).into();
    let none = Vec::new();
    let expected =
        [none.clone(), none.clone(), none.clone(), vec![116], none.clone(), none.clone(), vec![132], vec![137]];
    assert_eq!(told, expected);
    assert_eq!(after(&mut strides, 8, 136), none, "another instruction");
    assert_eq!(after(&mut strides, 7, 137), [142], "it does not disturb the first");
    strides.switch();
    assert_eq!(after(&mut strides, 7, 142), none, "another address space");
}

#[test]
fn the_modified_kind_uses_the_old_and_the_new_stride_at_once() {
    let mut strides = Strides::new(&StrideSpec { modified: true, ..StrideSpec::default() });
    assert_eq!(after(&mut strides, 7, 100), [0; 0]);
    assert_eq!(after(&mut strides, 7, 105), [110], "no stride before");
    assert_eq!(after(&mut strides, 7, 108), [113, 111]);
    assert_eq!(after(&mut strides, 7, 111), [114], "both are the same");
    assert_eq!(after(&mut strides, 7, 111), [114], "a stride of 0 proposes nothing");
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let wrong = StrideSpec { entries: 10, ways: 4, ..StrideSpec::default() }.invalid("tlb_stride");
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].to_string().contains("`tlb_stride.entries`: 10 entries do not divide"), "{}", wrong[0]);
    assert_eq!(StrideSpec { entries: 0, ..StrideSpec::default() }.invalid("tlb_stride").len(), 1);
}
