//! A*: shortest paths through a map, from cell to cell.
//!
//! Stands for SPEC 2006's astar (RMM Table 4: 350 MB), its path search over a map of terrains. Layout: the
//! map, 2 bytes of terrain a cell, filled in set-up; a record of 16 bytes a cell (number of the search that
//! reached it, path cost, predecessor, state); the open list, a binary heap of 16-byte entries that grows as
//! it needs. Searches connect random cells, one after another; a record of an older search counts as
//! unvisited.
//!
//! ```text
//! pop       as in a binary heap: two loads and a branch or two a level
//! neighbour mov map(cell); test; je; mov record(cell); cmp; mov cost(record); cmp; jbe; mov x 2; push
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, check_sim_host_bytes, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource, mix64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of A*.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AstarSpec {
    /// Bytes of map and records; sets the map's edge.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of map and searches.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Share of cells that cannot be entered.
    #[schemars(range(min = 0.0, max = 0.35), extend("x-unit" = "ratio"))]
    pub blocked: f64,
    /// Terrains, with costs from 1 to this number.
    #[schemars(range(min = 1, max = 1000), extend("x-unit" = "count"))]
    pub terrains: u32,
    /// Searches, after which the program ends.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count"))]
    pub searches: u64,
}

impl Default for AstarSpec {
    fn default() -> Self {
        AstarSpec { footprint: 350 << 20, seed: 1, blocked: 0.2, terrains: 8, searches: 1000 }
    }
}

const CELL_BYTES: u64 = 2;
const RECORD_BYTES: u64 = 16;
/// Bytes of the simulator's memory for a cell: where the search has reached it, and its part of the open list.
const SIM_HOST_BYTES_A_CELL: u128 = 16;

impl AstarSpec {
    fn edge(&self) -> u64 {
        ((self.footprint / (CELL_BYTES + RECORD_BYTES)) as f64).sqrt() as u64
    }

    /// The cost of entering a cell; `None` if it is blocked.
    fn terrain(&self, cell: u64) -> Option<u32> {
        let draw = mix64(cell ^ self.seed.rotate_left(31));
        let blocked = (draw >> 32) as f64 / (1u64 << 32) as f64;
        (blocked >= self.blocked).then_some(1 + (draw as u32) % self.terrains)
    }
}

impl BenchmarkSpec for AstarSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "astar",
        about: "A* searches between random cells of a map of terrains",
        stands_for: "SPEC astar; path search: a growing frontier with a priority queue",
        default_footprint: 350 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        let cells = u128::from(self.edge()).pow(2);
        check_sim_host_bytes(at, "footprint", cells * SIM_HOST_BYTES_A_CELL, &mut problems);
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let edge = self.edge();
        let facts = format!("map of {edge} by {edge} cells");
        let identity = identity("astar", self, &facts, edge * edge * (CELL_BYTES + RECORD_BYTES));
        ProgramSource::boxed(identity, AddressSpace::new(), Astar(self.clone()))
    }
}

/// Code addresses of the compiled program.
mod pc {
    use super::TEXT;
    pub const UP: u64 = TEXT + 0x200;
    pub const RISES: u64 = TEXT + 0x208;
    pub const PUT: u64 = TEXT + 0x210;
    pub const TOP: u64 = TEXT + 0x240;
    pub const DOWN: u64 = TEXT + 0x250;
    pub const SIDE: u64 = TEXT + 0x260;
    pub const SINKS: u64 = TEXT + 0x268;
    pub const STALE: u64 = TEXT + 0x280;
    pub const MAP: u64 = TEXT + 0x2a0;
    pub const FREE: u64 = TEXT + 0x2a8;
    pub const RECORD: u64 = TEXT + 0x2b0;
    pub const COST: u64 = TEXT + 0x2b8;
    pub const BETTER: u64 = TEXT + 0x2c0;
    pub const SET: u64 = TEXT + 0x2c8;
    pub const NEXT: u64 = TEXT + 0x300;
}

/// An entry of the open list: estimate of the whole path, cost so far, cell.
type Entry = (u64, u64, u64);

/// The open list in its growing array.
struct Open {
    entries: Vec<Entry>,
    array: Array,
}

const ENTRY_BYTES: u64 = 16;

impl Open {
    fn push(&mut self, on: &mut Execution, entry: Entry) {
        if self.entries.len() as u64 == self.array.len {
            // `std::vector` doubles and copies its elements.
            let larger = on.array(ENTRY_BYTES, 2 * self.array.len);
            for i in 0..self.array.len {
                on.load(pc::PUT + 8, self.array.at(i), 16, Value::NONE);
                on.store(pc::PUT + 12, larger.at(i), 16, Value::NONE);
                on.work(2);
            }
            on.free_array(&self.array);
            self.array = larger;
        }
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let above = (hole - 1) / 2;
            on.work(3);
            let loaded = on.load(pc::UP, self.array.at(above as u64), 16, Value::NONE);
            let rises = entry < self.entries[above];
            on.branch(pc::RISES, pc::PUT, !rises, loaded);
            if !rises {
                break;
            }
            on.store(pc::UP + 4, self.array.at(hole as u64), 16, Value::NONE);
            self.entries[hole] = self.entries[above];
            hole = above;
        }
        on.store(pc::PUT, self.array.at(hole as u64), 16, Value::NONE);
        on.work(2);
        self.entries[hole] = entry;
    }

    fn pop(&mut self, on: &mut Execution) -> Option<(Entry, Value)> {
        let least = *self.entries.first()?;
        let top = on.load(pc::TOP, self.array.at(0), 16, Value::NONE);
        let last = self.entries.pop()?;
        let len = self.entries.len();
        if len == 0 {
            return Some((least, top));
        }
        on.load(pc::TOP + 4, self.array.at(len as u64), 16, Value::NONE);
        let mut hole = 0;
        while 2 * hole + 1 < len {
            let mut child = 2 * hole + 1;
            on.work(3);
            let mut loaded = on.load(pc::DOWN, self.array.at(child as u64), 16, Value::NONE);
            if child + 1 < len {
                let right = on.load(pc::DOWN + 4, self.array.at(child as u64 + 1), 16, Value::NONE);
                let other = self.entries[child + 1] < self.entries[child];
                on.branch(pc::SIDE, pc::SINKS, other, right);
                if other {
                    child += 1;
                    loaded = right;
                }
            }
            let sinks = self.entries[child] < last;
            on.branch(pc::SINKS, pc::STALE, !sinks, loaded);
            if !sinks {
                break;
            }
            on.store(pc::DOWN + 8, self.array.at(hole as u64), 16, Value::NONE);
            self.entries[hole] = self.entries[child];
            hole = child;
        }
        on.store(pc::DOWN + 12, self.array.at(hole as u64), 16, Value::NONE);
        self.entries[hole] = last;
        Some((least, top))
    }
}

struct Astar(AstarSpec);

impl Program for Astar {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.search_all(on, |_, _, _| ());
    }
}

impl Astar {
    /// Runs all searches; `found` receives start, goal, and the path's cost if there is one.
    fn search_all(&self, on: &mut Execution, mut found: impl FnMut(u64, u64, Option<u64>)) {
        let spec = &self.0;
        let edge = spec.edge();
        let cells = edge * edge;
        let map = on.filled_array(CELL_BYTES, cells);
        let records = on.filled_array(RECORD_BYTES, cells);
        let array = on.filled_array(ENTRY_BYTES, 1024);
        let mut open = Open { entries: Vec::new(), array };
        // For each cell: the search that reached it last, and the cost of the path to it.
        let mut reached = vec![(0u32, 0u32); cells as usize];
        on.begin_region();
        let mut random = Random::for_purpose(spec.seed, "astar searches");
        for search in 1..=spec.searches.min(u64::from(u32::MAX)) as u32 {
            let mut pick = || loop {
                let cell = random.below(cells);
                if spec.terrain(cell).is_some() {
                    return cell;
                }
            };
            let (start, goal) = (pick(), pick());
            let estimate = |cell: u64| (cell / edge).abs_diff(goal / edge) + (cell % edge).abs_diff(goal % edge);
            open.entries.clear();
            reached[start as usize] = (search, 0);
            on.store(pc::SET, records.at(start), 8, Value::NONE);
            open.push(on, (estimate(start), 0, start));
            let mut way = None;
            while let Some(((_, cost, cell), entry)) = open.pop(on) {
                let record = on.load(pc::STALE, records.at(cell), 16, entry);
                let stale = u64::from(reached[cell as usize].1) < cost;
                on.branch(pc::STALE + 8, pc::NEXT, stale, record);
                on.work(4);
                if cell == goal {
                    way = Some(cost);
                    break;
                }
                if stale {
                    continue;
                }
                let (row, column) = (cell / edge, cell % edge);
                let around = [
                    (row > 0, cell.wrapping_sub(edge)),
                    (column > 0, cell.wrapping_sub(1)),
                    (column + 1 < edge, cell + 1),
                    (row + 1 < edge, cell + edge),
                ];
                for (_, next) in around.into_iter().filter(|(inside, _)| *inside) {
                    on.work(4);
                    let terrain = on.load(pc::MAP, map.at(next), 2, entry);
                    let enter = spec.terrain(next);
                    on.branch(pc::FREE, pc::NEXT, enter.is_none(), terrain);
                    let Some(enter) = enter else { continue };
                    let through = cost + u64::from(enter);
                    let number = on.load(pc::RECORD, records.at(next), 4, entry);
                    on.load(pc::COST, records.at(next).offset(4), 4, entry);
                    let (last, known) = reached[next as usize];
                    let better = last != search || through < u64::from(known);
                    on.branch(pc::BETTER, pc::NEXT, !better, number);
                    on.work(3);
                    if better {
                        reached[next as usize] = (search, through as u32);
                        on.store(pc::SET, records.at(next), 8, entry);
                        on.store(pc::SET + 4, records.at(next).offset(8), 8, entry);
                        open.push(on, (through + estimate(next), through, next));
                    }
                }
            }
            found(start, goal, way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;
    use petgraph::graph::{DiGraph, NodeIndex};

    #[test]
    fn path_costs_match_an_independent_library() {
        let spec = AstarSpec { footprint: 60 << 10, searches: 40, ..AstarSpec::default() };
        let edge = spec.edge();
        let mut edges = Vec::new();
        for cell in 0..edge * edge {
            let (row, column) = (cell / edge, cell % edge);
            let mut step = |next: u64| {
                if let (Some(_), Some(cost)) = (spec.terrain(cell), spec.terrain(next)) {
                    edges.push((cell as u32, next as u32, u64::from(cost)));
                }
            };
            if row + 1 < edge {
                step(cell + edge);
            }
            if column + 1 < edge {
                step(cell + 1);
            }
            if row > 0 {
                step(cell - edge);
            }
            if column > 0 {
                step(cell - 1);
            }
        }
        let library = DiGraph::<(), u64>::from_edges(edges);
        let mut ways = 0;
        trace_of(AddressSpace::new(), |on| {
            Astar(spec.clone()).search_all(on, |start, goal, cost| {
                let all = petgraph::algo::dijkstra(&library, NodeIndex::new(start as usize), None, |e| *e.weight());
                assert_eq!(cost, all.get(&NodeIndex::new(goal as usize)).copied());
                ways += u32::from(cost.is_some());
            });
        });
        assert!(ways > 20);
    }
}
