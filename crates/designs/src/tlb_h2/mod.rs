//! H2 TLB prefetching (H2P): the latest two distances between missing pages, again.
//!
//! Source: Vavouliotis et al., "Exploiting Page Table Locality for Agile TLB Prefetching", ISCA 2021. After
//! misses on pages A, B and E it prefetches E + (E - B) and E + (B - A). It has no table.

use ambulator_base::State;
use ambulator_mmu::{Proposals, TlbMiss, TlbPrefetcher};
use ambulator_sockets::{Descriptor, NoSettings, Parts, Socket};
use ambulator_structures::tlb_prefetch::LatestDistances;

/// Proposes pages by the latest two distances.
#[derive(Default, State)]
pub(crate) struct LatestTwo(LatestDistances);

impl TlbPrefetcher for LatestTwo {
    fn switch(&mut self) {
        self.0.clear();
    }

    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals) {
        if let (Some(latest), Some(before)) = self.0.to(miss.page) {
            proposals.push(miss, latest);
            proposals.push(miss, before);
        }
        self.0.push(miss.page);
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "tlb-h2",
        "prefetches translations by the latest two distances between missing pages",
        "Vavouliotis et al., Exploiting Page Table Locality for Agile TLB Prefetching, ISCA 2021 (H2P)",
    )
    .fills(Socket::TlbPrefetch, "the latest two distances")
    .settings::<NoSettings>()
    .build(|_, _| Parts { tlb_prefetcher: Some(Box::new(|_| Box::<LatestTwo>::default())), ..Parts::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::VirtAddr;

    #[test]
    fn three_misses_give_two_distances() {
        let mut latest = LatestTwo::default();
        let mut after = |page| {
            let mut proposals = Proposals::default();
            latest.miss(&TlbMiss { page, frames: 1, pc: VirtAddr(0), served: None }, &mut proposals);
            proposals.pages().to_vec()
        };
        let told: Vec<Vec<u64>> = [100, 104, 105, 109, 113].map(&mut after).into();
        assert_eq!(told, [vec![], vec![], vec![106, 109], vec![113, 110], vec![117]]);
        latest.switch();
        let mut proposals = Proposals::default();
        for page in [114, 115] {
            latest.miss(&TlbMiss { page, frames: 1, pc: VirtAddr(0), served: None }, &mut proposals);
        }
        assert_eq!(proposals.pages(), [0; 0], "another address space");
    }
}
