//! Checks searches and the index grid against plain ones.

use super::*;
use crate::benchmarks::execution::trace_of;

#[test]
fn searches_find_the_point_below_and_the_index_grid_counts_points() {
    let spec = XsbenchSpec { footprint: 24 << 20, size: XsbenchSize::Small, lookups: 2000, ..XsbenchSpec::default() };
    let grids = Grids::new(68, spec.points(), &mut Random::for_purpose(1, "xsbench grids"));
    let mut per_nuclide = vec![Vec::new(); 68];
    for (energy, origin) in grids.energies.iter().zip(&grids.origins) {
        per_nuclide[usize::from(*origin)].push(*energy);
    }
    assert!(per_nuclide.iter().all(|grid| grid.len() as u64 == spec.points()));
    let mut met = [0u32; MATERIALS];
    let mut row = vec![0; 68];
    let (_, batches) = trace_of(AddressSpace::new(), |on| {
        Xsbench(spec.clone()).simulate(on, |energy, material, point| {
            met[material] += 1;
            let below = grids.energies.partition_point(|e| *e <= energy);
            assert_eq!(point, below.saturating_sub(1).min(grids.energies.len() - 2));
            grids.counts(point, &mut row);
            for (nuclide, count) in row.iter().enumerate() {
                let at_or_below = per_nuclide[nuclide].partition_point(|e| *e <= grids.energies[point]);
                assert_eq!(*count as usize, at_or_below, "nuclide {nuclide}");
            }
        });
    });
    assert!(met.iter().all(|n| *n > 0) && met[2] > 400 && met[0] > 200, "{met:?}");
    let records: usize = batches.iter().map(|b| b.records.len()).sum();
    assert!(records > 2000 * (3 * 14 + 15 * 36));
}
