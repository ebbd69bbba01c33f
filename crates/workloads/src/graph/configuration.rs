//! A graph whose neighbours are computed, not stored: the degrees of a Kronecker graph, ends paired at random.
//!
//! It is a configuration model (Bollobás 1980; Molloy and Reed 1995). Every vertex has as many stubs as edges;
//! a random matching of all stubs makes the edges. A stub here is a stored edge, that is a place in the
//! neighbour array of compressed sparse rows. The matching is an involution without fixed points that three
//! rounds of hashing compute, so each edge is stored at both of its ends and the graph is undirected. The
//! neighbour at a place is the vertex to which the place's partner belongs.
//!
//! The degrees are those of the stochastic Kronecker graph with the same settings. There a vertex whose label
//! has `j` ones among its `s` bits has a Poisson number of edges, with a mean that only depends on `j`. Vertices lie
//! in blocks of 1024 to 2047. Each block has one of a few rows of drawn degrees, rotated at random; a row is a fair
//! sample of all vertices but the hubs, which are drawn one by one and of which a block has at most one. So an offset
//! is a block's first edge, a difference of two prefix sums, and the hub's edges if it comes before: the tables
//! take some 20 bytes for each block, 6 MiB for half a billion vertices. A graph of up to [`ROWS`] blocks has a row of
//! its own for each, and no hubs apart.
//!
//! Why this is close to a Kronecker graph: with Graph500's parameters the probability of an edge is nearly the
//! product of a share of each end (0.57 beside 0.76 * 0.76 at each level), and the two models are alike in
//! degrees, clustering and eigenvalues (Pinar, Seshadhri and Kolda, SDM 2012). The example `graph_distance`
//! measures it.

use super::kronecker::GraphSpec;
use crate::permutation::Permutation;
use ambulator_base::{Random, mix64, mul_high, prefetch_sim_host};

/// Vertices of a block are from this many on, to less than twice as many.
const BLOCK_VERTICES: u64 = 1 << 10;
/// Rows of degrees that blocks share.
const ROWS: u64 = 32;
/// Vertices of a class that all rows together must have; those of a rarer one are hubs.
const LEAST: f64 = 8.0;
/// Bits of a packed [`Block`].
const ROW_BITS: u32 = 5;
const ROTATION_BITS: u32 = 11;

/// Neighbours that [`ConfigurationGraph::neighbours`] computes at once.
pub const AT_ONCE: usize = 8;

/// First stored edge, row and rotation of a block, packed: 48, 5 and 11 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Block(u64);

impl Block {
    fn new(first: u64, row: u64, rotation: u64) -> Block {
        debug_assert!(first < 1 << (64 - ROW_BITS - ROTATION_BITS) && row < 1 << ROW_BITS);
        Block(first << (ROW_BITS + ROTATION_BITS) | row << ROTATION_BITS | rotation)
    }

    #[inline(always)]
    fn first(self) -> u64 {
        self.0 >> (ROW_BITS + ROTATION_BITS)
    }

    #[inline(always)]
    fn row(self) -> usize {
        (self.0 >> ROTATION_BITS) as usize & ((1 << ROW_BITS) - 1)
    }

    #[inline(always)]
    fn rotation(self) -> usize {
        self.0 as usize & ((1 << ROTATION_BITS) - 1)
    }
}

/// Finds the interval of ascending bounds that holds a number: a table says where the search begins.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    factor: u64,
    shift: u32,
}

impl Scale {
    /// Maps `0..total` evenly to `0..cells`, a power of two up to 2^22.
    fn new(cells: u64, total: u64) -> Scale {
        let shift = 62 - cells.ilog2();
        Scale { factor: (cells << shift) / total.max(1), shift }
    }

    #[inline(always)]
    fn cell(self, at: u64) -> usize {
        ((at * self.factor) >> self.shift) as usize
    }

    /// For each cell the first interval that reaches into it; interval `i` ends before `ends(i)`.
    fn guide(self, cells: u64, intervals: usize, ends: impl Fn(usize) -> u64) -> Vec<u32> {
        let mut guide = vec![0; cells as usize];
        let (mut start, mut next) = (0, 0);
        for i in 0..intervals {
            let end = ends(i);
            if end > start {
                let last = self.cell(end - 1);
                while next <= last {
                    guide[next] = i as u32;
                    next += 1;
                }
                start = end;
            }
        }
        guide
    }
}

/// The matching of all stored edges: each has one other as its partner.
///
/// A number is a column and a row of bits. Two reflections of the column by a hash of the row, with a change of
/// the row by a hash of the column between them, are their own inverse; the row always changes, so nothing is
/// its own partner.
#[derive(Clone, Debug, PartialEq)]
struct Matching {
    bits: u32,
    columns: u64,
    keys: [u64; 4],
}

impl Matching {
    /// A matching of the most numbers up to `total` that it can match.
    fn new(total: u64, seed: u64) -> Matching {
        let bits = (total.max(4).ilog2() / 2).max(1);
        let mut random = Random::for_purpose(seed, "configuration matching");
        let mut keys = [0; 4].map(|_| random.next_u64());
        (keys[1], keys[3]) = (keys[1] | 1, keys[3] | 1);
        Matching { bits, columns: total >> bits, keys }
    }

    /// Numbers matched.
    fn len(&self) -> u64 {
        self.columns << self.bits
    }

    /// 32 hashed bits.
    #[inline(always)]
    fn hash(&self, x: u64, which: usize) -> u64 {
        let mixed = (x ^ self.keys[which]).wrapping_mul(self.keys[which + 1]);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
    }

    #[inline(always)]
    fn reflect(&self, column: u64, row: u64) -> u64 {
        let around = (self.hash(row, 0) * self.columns) >> 32;
        if around >= column { around - column } else { around + self.columns - column }
    }

    #[inline(always)]
    fn partner(&self, at: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        let (column, row) = (at >> self.bits, at & mask);
        let column = self.reflect(column, row);
        let row = row ^ (((self.hash(column, 2) * mask) >> 32) + 1);
        self.reflect(column, row) << self.bits | row
    }
}

/// A vertex with many edges: its place in its block, and how many edges it has in addition to the row's.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hub {
    place: u32,
    edges: u32,
}

/// A graph with the degrees of a Kronecker graph and ends paired at random, all computed.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationGraph {
    vertices: u64,
    edges: u64,
    /// Vertices of a block, which is also the number of places of a row.
    width: u32,
    /// The blocks, and one that begins where the last ends.
    blocks: Vec<Block>,
    block_scale: Scale,
    block_guide: Vec<u32>,
    /// For each block one more than the number of its hub, 0 for none.
    hub_of: Vec<u32>,
    hubs: Vec<Hub>,
    /// For each row the sums of degrees before each place, and their total.
    prefixes: Vec<u32>,
    row_scales: Vec<Scale>,
    row_guides: Vec<u32>,
    row_cells: usize,
    matching: Matching,
}

/// Blocks, and vertices of each, of a graph with at least `vertices` vertices.
fn blocks_of(vertices: u64) -> (u64, u64) {
    let blocks = 1 << vertices.ilog2().saturating_sub(BLOCK_VERTICES.ilog2());
    (blocks, vertices.div_ceil(blocks))
}

/// Shares of an edge's first and second end that lie in the upper half of the labels, at each level.
fn shares(spec: &GraphSpec) -> [f64; 2] {
    [(spec.a + spec.b).min(1.0), (spec.a + spec.c).min(1.0)]
}

impl ConfigurationGraph {
    /// The most vertices up to `vertices` that fill their blocks.
    pub fn whole(vertices: u64) -> u64 {
        if vertices < 2 * BLOCK_VERTICES {
            return vertices;
        }
        let (blocks, _) = blocks_of(vertices);
        vertices / blocks * blocks
    }

    /// Bytes of the simulator's memory that the tables take.
    pub fn sim_host_bytes(vertices: u64) -> u64 {
        let (blocks, width) = blocks_of(vertices.max(1));
        blocks * 23 + blocks.min(ROWS) * (width * 4 + 2 * width.next_power_of_two() * 4)
    }

    /// The expected edges of the greatest hub: sums of degrees within a block are 32-bit.
    pub fn most_edges_of_a_vertex(spec: &GraphSpec, vertices: u64) -> f64 {
        let levels = vertices.max(2).next_power_of_two().ilog2() as i32;
        let edges = vertices as f64 * f64::from(spec.edge_factor);
        shares(spec).map(|share| edges * share.max(1.0 - share).powi(levels)).iter().sum()
    }

    /// The graph with these settings. [`ConfigurationGraph::most_edges_of_a_vertex`] must be below 2^31.
    pub fn new(spec: &GraphSpec, vertices: u64, seed: u64) -> ConfigurationGraph {
        let (block_count, width) = blocks_of(vertices);
        let row_count = block_count.min(ROWS);
        let mut random = Random::for_purpose(seed, "configuration degrees");
        let (degrees, hub_edges) = draw_degrees(spec, block_count * width, row_count * width, &mut random);
        let row_cells = 2 * width.next_power_of_two();
        let mut prefixes: Vec<u32> = Vec::with_capacity((row_count * (width + 1)) as usize);
        let (mut row_scales, mut row_guides) = (Vec::new(), Vec::new());
        for row in degrees.chunks_exact(width as usize) {
            let mut sum = 0u32;
            let start = prefixes.len();
            prefixes.push(0);
            for degree in row {
                sum = sum.saturating_add(*degree);
                prefixes.push(sum);
            }
            let scale = Scale::new(row_cells, u64::from(sum));
            row_guides.extend(scale.guide(row_cells, width as usize, |i| u64::from(prefixes[start + i + 1])));
            row_scales.push(scale);
        }
        // Hubs are in blocks that lie wholly in the graph, one in each.
        let whole = (vertices / width).max(1);
        let order = Permutation::new(whole, seed, "hubs");
        let mut hub_of = vec![0; block_count as usize];
        let mut hubs = Vec::new();
        for (block, edges) in (0..whole).map(|i| order.of(i)).zip(hub_edges) {
            hubs.push(Hub { place: random.below(width) as u32, edges });
            hub_of[block as usize] = hubs.len() as u32;
        }
        let mut blocks = Vec::with_capacity(block_count as usize + 1);
        let mut first = 0;
        let key = Random::for_purpose(seed, "configuration blocks").next_u64();
        for block in 0..block_count {
            let mixed = mix64(block ^ key);
            let row = if block_count > ROWS { mixed % ROWS } else { block };
            blocks.push(Block::new(first, row, mul_high(mixed, width)));
            let hub = (hub_of[block as usize] as usize).checked_sub(1).map_or(0, |hub| hubs[hub].edges);
            first += u64::from(prefixes[((row + 1) * (width + 1) - 1) as usize]) + u64::from(hub);
        }
        blocks.push(Block::new(first, 0, 0));
        let mut graph = ConfigurationGraph {
            vertices,
            edges: first,
            width: width as u32,
            blocks,
            block_scale: Scale::new(2 * block_count, first),
            block_guide: Vec::new(),
            hub_of,
            hubs,
            prefixes,
            row_scales,
            row_guides,
            row_cells: row_cells as usize,
            matching: Matching::new(first, seed),
        };
        graph.block_guide =
            graph.block_scale.guide(2 * block_count, block_count as usize, |i| graph.blocks[i + 1].first());
        // The vertices beyond the last one, and at most as many edges as cannot be matched, are cut off.
        graph.matching = Matching::new(graph.offset(vertices), seed);
        graph.edges = graph.matching.len();
        graph
    }

    /// Vertices.
    pub fn vertices(&self) -> u64 {
        self.vertices
    }

    /// Stored edges.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[u32] {
        let places = self.width as usize + 1;
        &self.prefixes[row * places..(row + 1) * places]
    }

    /// Edges of a block's row before one of its places, without those of its hub.
    #[inline(always)]
    fn before(&self, block: Block, place: usize) -> u32 {
        let row = self.row(block.row());
        let (begin, width) = (block.rotation(), self.width as usize);
        let there = begin + place;
        match there.checked_sub(width) {
            None => row[there] - row[begin],
            Some(wrapped) => row[wrapped] + (row[width] - row[begin]),
        }
    }

    #[inline(always)]
    fn hub(&self, block: usize) -> Option<Hub> {
        (self.hub_of[block] as usize).checked_sub(1).map(|hub| self.hubs[hub])
    }

    /// The first stored edge of vertex `u`; the end of the last vertex's for the number after it.
    #[inline(always)]
    pub fn offset(&self, u: u64) -> u64 {
        let (at, place) = (u as u32 / self.width, u as u32 % self.width);
        let block = self.blocks[at as usize];
        if place == 0 {
            return block.first().min(self.edges);
        }
        let hub = self.hub(at as usize).filter(|hub| hub.place < place).map_or(0, |hub| hub.edges);
        (block.first() + u64::from(self.before(block, place as usize)) + u64::from(hub)).min(self.edges)
    }

    /// The vertex to which a stored edge belongs.
    #[inline(always)]
    pub fn owner(&self, edge: u64) -> u32 {
        self.owner_in(self.block_of(edge), edge)
    }

    /// The block of the vertex to which a stored edge belongs.
    #[inline(always)]
    fn block_of(&self, edge: u64) -> usize {
        let mut at = self.block_guide[self.block_scale.cell(edge)] as usize;
        // Two cells are a block's share: whether it is the next one cannot be predicted, more steps are rare.
        at += usize::from(self.blocks[at + 1].first() <= edge);
        while self.blocks[at + 1].first() <= edge {
            at += 1;
        }
        at
    }

    /// The vertex of block `at` to which a stored edge belongs.
    #[inline(always)]
    fn owner_in(&self, at: usize, edge: u64) -> u32 {
        let block = self.blocks[at];
        let mut within = (edge - block.first()) as u32;
        if let Some(hub) = self.hub(at) {
            // Its edges come after those that it has of its row.
            let first = self.before(block, hub.place as usize + 1);
            if within >= first {
                match (within - first).checked_sub(hub.edges) {
                    None => return at as u32 * self.width + hub.place,
                    Some(beyond) => within = first + beyond,
                }
            }
        }
        let row = self.row(block.row());
        let width = self.width as usize;
        let begin = block.rotation();
        let tail = row[width] - row[begin];
        within = if within < tail { within + row[begin] } else { within - tail };
        let cell = self.row_scales[block.row()].cell(u64::from(within));
        let mut place = self.row_guides[block.row() * self.row_cells + cell] as usize;
        while row[place + 1] <= within {
            place += 1;
        }
        let place = if place >= begin { place - begin } else { place + width - begin };
        at as u32 * self.width + place as u32
    }

    /// Passes each edge once, from the end that is stored first.
    pub fn for_each_edge(&self, mut edge: impl FnMut(u32, u32)) {
        for at in 0..self.edges {
            let partner = self.matching.partner(at);
            if at < partner {
                edge(self.owner(at), self.owner(partner));
            }
        }
    }

    /// The vertex to which a stored edge leads.
    #[inline(always)]
    pub fn neighbour(&self, edge: u64) -> u32 {
        self.owner(self.matching.partner(edge))
    }

    /// The vertices to which the stored edges from `first` on lead: `ends` has room for up to `AT_ONCE`.
    ///
    /// They are computed together, one step for all of them after the other: what a step reads of the tables
    /// is at random places, and the sim host waits for all of it at once instead of for one after the other.
    #[inline(never)]
    pub fn neighbours(&self, first: u64, ends: &mut [u32]) {
        debug_assert!(ends.len() <= AT_ONCE);
        let mut partners = [(0, 0); AT_ONCE];
        for (edge, (partner, _)) in (first..first + ends.len() as u64).zip(&mut partners) {
            *partner = self.matching.partner(edge);
            prefetch_sim_host(&self.block_guide[self.block_scale.cell(*partner)]);
        }
        for (partner, block) in &mut partners[..ends.len()] {
            *block = self.block_of(*partner);
            prefetch_sim_host(&self.hub_of[*block]);
        }
        for (end, (partner, block)) in ends.iter_mut().zip(partners) {
            *end = self.owner_in(block, partner);
        }
    }
}

/// Degrees of the `places` of all rows, a sample of `vertices`, and those of hubs.
///
/// As in the stored Kronecker graph, the labels of the next larger power of two are folded onto the vertices: each
/// vertex has one, and some have a second.
fn draw_degrees(spec: &GraphSpec, vertices: u64, places: u64, random: &mut Random) -> (Vec<u32>, Vec<u32>) {
    let levels = vertices.next_power_of_two().ilog2();
    let edges = vertices as f64 * f64::from(spec.edge_factor);
    let (mut labels, mut hubs) = (Vec::new(), Vec::new());
    // Labels of a class, and in all rows: from their sums, so that all are met.
    let (mut count, mut sum, mut drawn) = (1.0f64, 0.0, 0u64);
    for ones in 0..=levels {
        let mean = shares(spec)
            .map(|share| edges * share.powi((levels - ones) as i32) * (1.0 - share).powi(ones as i32))
            .iter()
            .sum::<f64>();
        let expected = count * places as f64 / vertices as f64;
        let usual = 2.0 * f64::from(spec.edge_factor);
        if places < vertices && expected < LEAST && mean > usual {
            for i in 0..count.round() as u64 {
                hubs.push(poisson(mean, (i as f64 + random.unit()) / count, random));
            }
        } else {
            sum += expected;
            let alike = (sum.round() as u64).saturating_sub(drawn);
            drawn += alike;
            // One draw from each equal part of the distribution: sums hardly vary.
            for i in 0..alike {
                labels.push(poisson(mean, (i as f64 + random.unit()) / alike as f64, random));
            }
        }
        count *= f64::from(levels - ones) / f64::from(ones + 1);
    }
    random.shuffle(&mut labels);
    random.shuffle(&mut hubs);
    let mut degrees = vec![0u32; places as usize];
    for (label, degree) in labels.into_iter().enumerate() {
        let place = &mut degrees[label % places as usize];
        *place = place.saturating_add(degree);
    }
    // Those with a second label are anywhere.
    random.shuffle(&mut degrees);
    (degrees, hubs)
}

/// The `share`-quantile of a Poisson distribution; a random number from its normal approximation if the mean is
/// large.
fn poisson(mean: f64, share: f64, random: &mut Random) -> u32 {
    const LARGE: f64 = 100.0;
    if mean > LARGE {
        let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        return (mean + normal * mean.sqrt()).round().max(0.0) as u32;
    }
    let (mut p, mut count) = ((-mean).exp(), 0);
    let mut sum = p;
    while sum < share && f64::from(count) < 4.0 * LARGE {
        count += 1;
        p *= mean / f64::from(count);
        sum += p;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn rows_are_proper_and_each_edge_is_stored_at_both_ends(
            vertices in 16u64..20_000, edge_factor in 1u32..40, seed: u64, a in 0.0..1.0f64, b in 0.0..0.5f64
        ) {
            let spec = GraphSpec { edge_factor, a, b: b * (1.0 - a), c: (1.0 - b) * (1.0 - a), ..GraphSpec::default() };
            let graph = ConfigurationGraph::new(&spec, vertices, seed);
            prop_assert_eq!(graph.offset(0), 0);
            prop_assert_eq!(graph.offset(vertices), graph.edges());
            prop_assert!(graph.edges() > 0);
            for u in 0..vertices {
                let (begin, end) = (graph.offset(u), graph.offset(u + 1));
                prop_assert!(begin <= end, "vertex {} begins at {} and ends at {}", u, begin, end);
                for edge in begin..end {
                    prop_assert_eq!(u64::from(graph.owner(edge)), u);
                }
            }
            let mut ends = [0; AT_ONCE];
            for first in (0..graph.edges()).step_by(AT_ONCE) {
                let ends = &mut ends[..(graph.edges() - first).min(AT_ONCE as u64) as usize];
                graph.neighbours(first, ends);
                for (edge, end) in (first..).zip(ends) {
                    prop_assert_eq!(*end, graph.neighbour(edge), "the end of stored edge {}", edge);
                }
            }
            for edge in 0..graph.edges() {
                let partner = graph.matching.partner(edge);
                prop_assert!(partner != edge && partner < graph.edges());
                prop_assert_eq!(graph.matching.partner(partner), edge);
            }
        }
    }

    #[test]
    fn partners_are_scattered() {
        let matching = Matching::new(1 << 20, 9);
        let n = matching.len();
        let (mut bins, mut near) = ([0u32; 64], 0);
        for at in 0..n {
            let partner = matching.partner(at);
            // Where partners of one row and of one column go.
            bins[(partner * 64 / n) as usize ^ (at * 64 / n) as usize] += 1;
            near += u32::from(partner.abs_diff(matching.partner((at + 1) % n)) < n / 256);
        }
        let even = n as f64 / 64.0;
        assert!(bins.iter().all(|b| (f64::from(*b) / even - 1.0).abs() < 0.05), "{bins:?}");
        assert!((0.006..0.010).contains(&(f64::from(near) / n as f64)), "{near} of {n} are near the one before");
    }

    #[test]
    fn half_a_billion_vertices_take_little_memory_and_have_their_edges() {
        let spec = GraphSpec::default();
        let vertices = ConfigurationGraph::whole(521_000_000);
        assert!(vertices > 520_700_000);
        let graph = ConfigurationGraph::new(&spec, vertices, 3);
        let share = graph.edges() as f64 / (vertices * 32) as f64;
        assert!((0.99..1.01).contains(&share), "{share} of the edges");
        let tables = graph.blocks.len() * 8
            + (graph.hub_of.len() + graph.block_guide.len() + graph.prefixes.len() + graph.row_guides.len()) * 4;
        assert!(tables < 8 << 20, "{tables} bytes");
        assert!(ConfigurationGraph::sim_host_bytes(vertices).abs_diff(tables as u64) < 2 << 20);
        // Edges at the far end of 34 bits.
        let u = vertices
            - 1
            - (0..vertices)
                .find(|back| {
                    let u = vertices - 1 - back;
                    graph.offset(u) < graph.offset(u + 1)
                })
                .unwrap();
        assert_eq!(u64::from(graph.owner(graph.offset(u))), u);
        assert!(graph.offset(u) > 1 << 33);
    }
}
