//! The hardware half: the LVM page-table walker and its walk cache (LVM Sec. 4.6.2, Fig. 7, 8).

use super::node::{NODE_BYTES, Node, is_of, pte_of, size_of};
use super::train::{LINE_SLOTS, search_order};
use super::{LEVELS, LvmSpec, kernel_base};
use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, LINE_BYTES, PhysAddr, State, VirtAddr};
use ambulator_hardware::{Replacement, SetArray};
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};

ambulator_base::counters! {
    /// Counters of an LVM walker.
    pub(crate) struct LvmWalkerCounters {
        /// Models found in the walk cache.
        lwc_hits: Events,
        /// Models loaded.
        lwc_misses: Events,
        /// Flushes of an address space's models, after a rebuild or several changes to its index.
        lwc_flushes: Events,
        /// Models dropped from the walk cache because they were retrained.
        lwc_model_flushes: Events,
        /// Lines of gapped tables loaded.
        table_loads: Events,
        /// Walks whose entry was not in the predicted line.
        collisions: Events,
        /// Lines loaded beyond the predicted one.
        extra_loads: Events,
        /// Accessed and dirty bits written into entries.
        bit_updates: Events,
    }
}

/// A cached model, and the cycle at which its load completes.
#[derive(Clone, Copy, Default, State)]
struct Cached {
    node: Node,
    ready: Cycle,
}

/// The registers of an index.
#[derive(Default, State)]
struct Registers {
    /// Addresses of each level's nodes.
    levels: [PhysAddr; LEVELS],
    /// First page and number of pages of each segment.
    segments: Vec<(u64, u64)>,
}

/// The ASID of the kernel's models in the walk cache, which no process has.
const KERNEL: Asid = Asid(0);

/// A walker.
#[derive(State)]
pub(crate) struct LvmWalker {
    #[state(skip)]
    latency: u64,
    #[state(skip)]
    evaluation: u64,
    #[state(skip)]
    extra: u32,
    asid: Asid,
    /// By address space: the index, and the number of its changes, that the cached models reflect.
    known: Vec<(Asid, u64, u64)>,
    own: Registers,
    /// The registers of the kernel's range, which begins at `kernel_base`.
    kernel: Registers,
    kernel_base: u64,
    /// `None` for a walk cache without entries.
    #[state(each)]
    cache: Option<SetArray<Cached>>,
    /// Its counters.
    pub(crate) counters: LvmWalkerCounters,
}

impl LvmWalker {
    /// A walker without a table.
    pub(crate) fn new(spec: &LvmSpec, va_bits: u32) -> LvmWalker {
        let cache = (spec.lwc_entries > 0).then(|| SetArray::new(1, spec.lwc_entries as usize, Replacement::Lru));
        LvmWalker {
            latency: if cache.is_some() { spec.lwc_latency } else { 0 },
            evaluation: spec.evaluation_latency,
            extra: spec.max_extra,
            asid: Asid(0),
            known: Vec::new(),
            own: Registers::default(),
            kernel: Registers::default(),
            kernel_base: kernel_base(va_bits),
            cache,
            counters: LvmWalkerCounters::default(),
        }
    }

    /// An entry's tag: level, offset, ASID (Fig. 8).
    fn tag(asid: Asid, level: usize, number: u64) -> u64 {
        number << 20 | (level as u64) << 16 | u64::from(asid.0)
    }

    fn registers(&mut self, asid: Asid) -> &mut Registers {
        if asid == KERNEL { &mut self.kernel } else { &mut self.own }
    }

    /// The model of a node, the cycle at which it is available, and the number of loads.
    fn model(
        &mut self,
        asid: Asid,
        level: usize,
        number: u64,
        key: u64,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Node, Cycle, u32) {
        let looked = now.after(self.latency);
        let tag = Self::tag(asid, level, number);
        if let Some(cached) = self.cache.as_mut().and_then(|cache| cache.lookup(0, tag))
            && cached.ready <= looked
        {
            self.counters.lwc_hits += 1;
            return (cached.node, looked, 0);
        }
        self.counters.lwc_misses += 1;
        if self.cache.is_some() {
            watch::step(|| {
                let step = Step::look_up("LVM walk cache (LWC)", false, now, looked).source("LVM Sec. 4.6.2, Fig. 8");
                step.field("level", level).field("node", number)
            });
        }
        let at = self.registers(asid).levels[level].offset(number * NODE_BYTES);
        let line = port.load_line(at, looked);
        if port.faulted() {
            return (Node::EMPTY, line.ready, 1);
        }
        // The line has four models; the walker keeps the one that it uses (Sec. 4.6.2).
        let word = (at.0 % LINE_BYTES / 8) as usize;
        let node = Node::of_words([line.words[word], line.words[word + 1]]);
        watch::meaning(at, || super::node::models(&line.words, word / 2, level, key));
        if let Some(cache) = &mut self.cache {
            watch::step(|| Step::fill("LVM walk cache (LWC)", line.ready).field("level", level).field("node", number));
            cache.insert(0, tag, Cached { node, ready: line.ready });
        }
        (node, line.ready, 1)
    }

    /// For a watch: where the model of a node came from, and what it says of a page of its segment.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn tell_model(
        &mut self,
        asid: Asid,
        level: usize,
        number: u64,
        key: u64,
        node: Node,
        [began, now]: [Cycle; 2],
        cached: bool,
    ) {
        if level == 0
            && let Some((first, pages)) = self.registers(asid).segments.get(number as usize).copied()
        {
            watch::step(|| {
                let shape = Shape::Interval { base: first, limit: first + pages, at: first + key };
                let step = Step::look_up("segment registers", true, began, began).field("segment", number).shape(shape);
                step.address("first page", first).field("page in the segment", key).source("LVM Sec. 5.2")
            });
        }
        let evaluated = Cycle(now.0 - self.evaluation);
        if cached {
            watch::step(|| {
                let step =
                    Step::look_up("LVM walk cache (LWC)", true, began, evaluated).source("LVM Sec. 4.6.2, Fig. 8");
                node.fields_of(step.field("level", level).field("node", number))
            });
        }
        watch::step(|| {
            let says = match (node.is_empty(), node.leaf) {
                (true, _) => "no table: nothing is mapped here".to_owned(),
                (_, true) => format!("slot at {:#x}", node.predict(key).wrapping_mul(8)),
                (_, false) => format!("child {} of the next level", node.predict(key)),
            };
            let step = Step::compute("slope times page plus intercept", evaluated, now).says(says);
            step.source("LVM Sec. 4.2.1, 4.5").shape(node.shape(key))
        });
    }

    fn flush(&mut self, asid: Asid) {
        if let Some(cache) = &mut self.cache {
            cache.retain(|tag, _| tag as u16 != asid.0);
        }
    }
}

impl LvmWalker {
    /// Loads the registers of an index, and drops cached models that have changed since.
    fn load(&mut self, asid: Asid, words: &[u64]) {
        let mut words = words.iter().copied();
        let [index, changes, changed] = [0; 3].map(|none| words.next().unwrap_or(none));
        let to = self.registers(asid);
        for level in &mut to.levels {
            *level = PhysAddr(words.next().unwrap_or(0));
        }
        to.segments.clear();
        while let (Some(start), Some(pages)) = (words.next(), words.next()) {
            to.segments.push((start, pages));
        }
        let place = self.known.iter().position(|(known, ..)| *known == asid).unwrap_or_else(|| {
            self.known.push((asid, index, changes));
            self.known.len() - 1
        });
        let (_, old_index, old_changes) = std::mem::replace(&mut self.known[place], (asid, index, changes));
        if old_index != index || changes.wrapping_sub(old_changes) > 1 {
            self.flush(asid);
            self.counters.lwc_flushes += 1;
        } else if changes != old_changes {
            let stale = Self::tag(asid, (changed >> 32) as usize, changed & 0xffff_ffff);
            if let Some(cache) = &mut self.cache {
                cache.retain(|tag, _| tag != stale);
            }
            self.counters.lwc_model_flushes += 1;
        }
    }
}

impl Walker for LvmWalker {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        let own = registers.0.first().map_or(0, |words| *words as usize);
        self.asid = asid;
        self.load(asid, registers.0.get(1..=own).unwrap_or_default());
        self.load(KERNEL, registers.0.get(1 + own..).unwrap_or_default());
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let (asid, page) = match va.0.checked_sub(self.kernel_base) {
            None => (self.asid, va.0 >> 12),
            Some(within) => (KERNEL, within >> 12),
        };
        let (mut now, mut accesses) = (now, 0);
        let not_mapped = |ready: Cycle, accesses: u32| Walk { outcome: WalkOutcome::NotMapped, ready, accesses };
        let mut began = now;
        let segments = &self.registers(asid).segments;
        let Some(segment) = segments.iter().position(|(start, pages)| page.wrapping_sub(*start) < *pages) else {
            return not_mapped(now, accesses);
        };
        let key = page - segments[segment].0;
        let mut number = segment as u64;
        for level in 0..LEVELS {
            let (node, ready, loads) = self.model(asid, level, number, key, now, port);
            accesses += loads;
            now = ready.after(self.evaluation);
            if watch::watched() {
                self.tell_model(asid, level, number, key, node, [began, now], loads == 0);
            }
            began = now;
            if node.is_empty() {
                return not_mapped(now, accesses);
            }
            number = node.predict(key);
            if node.leaf {
                break;
            }
        }
        let line = number / LINE_SLOTS;
        for (step, distance) in search_order(self.extra).enumerate() {
            let at = PhysAddr(line.wrapping_add_signed(distance) * LINE_BYTES);
            let loaded = port.load_line(at, now);
            accesses += 1;
            now = loaded.ready;
            watch::meaning(at, || super::node::entries(&loaded.words, page, number, step));
            self.counters.table_loads += 1;
            if port.faulted() {
                break;
            }
            self.counters.extra_loads += u64::from(step > 0);
            let Some(slot) = loaded.words.iter().position(|&word| is_of(word, page)) else { continue };
            self.counters.collisions += u64::from(step > 0);
            let word = loaded.words[slot];
            let mut pte = pte_of(word);
            let bits = pte.missing_bits(access == AccessKind::Store);
            if bits != 0 {
                self.counters.bit_updates += 1;
                port.update(at.offset(8 * slot as u64), bits, now);
                pte.0 |= bits;
            }
            return Walk { outcome: WalkOutcome::Mapped(pte.translation(size_of(word))), ready: now, accesses };
        }
        not_mapped(now, accesses)
    }

    fn invalidate(&mut self, what: Invalidation) {
        // Models are not translations, but invalidating a whole address space drops them too.
        match what {
            Invalidation::Asid(asid) => self.flush(asid),
            Invalidation::All => self.cache.iter_mut().for_each(SetArray::clear),
            Invalidation::Page { .. } => {}
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
