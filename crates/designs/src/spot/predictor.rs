//! The prediction table: by instruction, the offset of its last translation, with rights and a confidence.

use super::SpotSpec;
use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, Pfn, State, VirtAddr, mix64};
use ambulator_hardware::{Replacement, SetArray};
use ambulator_mmu::{Bus, Invalidation, Speculation, Speculator, TableRegisters, Translation};

ambulator_base::counters! {
    /// Counters of SpOT's prediction table.
    struct SpotCounters {
        /// L2 TLB misses of data accesses.
        probes: Events,
        /// Of these, predicted.
        predictions: Events,
        /// Correct predictions.
        right: Events,
        /// Wrong predictions: loads among them flush the pipeline.
        wrong: Events,
        /// Not predicted: no entry for the instruction.
        no_entry: Events,
        /// Not predicted: the entry's confidence was too low.
        no_confidence: Events,
        /// Not predicted: the entry has no right to store.
        no_right: Events,
        /// Entries made.
        fills: Events,
        /// Entries that got another offset because they had no confidence left.
        new_offsets: Events,
        /// Walks that made no entry: the page's entry lacked the contiguity bit.
        unmarked: Events,
        /// Walks that made no entry: all of the set had confidence.
        set_confident: Events,
        /// Cycles of walks that correct predictions of loads hid.
        hidden_cycles: Cycles timed,
    }
}

ambulator_base::counters! {
    /// The current entries.
    struct SpotNow {
        /// Entries.
        entries: Events gauge,
        /// Entries whose confidence lets them predict.
        confident: Events gauge,
    }
}

/// What an instruction's last translation was.
#[derive(Clone, Copy, Debug, Default, State)]
struct Entry {
    /// Number of the page minus number of its frame.
    offset: i64,
    writable: bool,
    confidence: u8,
}

/// The highest confidence.
const MOST: u8 = 3;

/// A core's prediction table.
#[derive(State)]
pub(super) struct Predictor {
    #[state(skip)]
    spec: SpotSpec,
    table: SetArray<Entry>,
    asid: Asid,
    /// Set and key of the access that is being walked for; `None` for a fetch.
    current: Option<(usize, u64)>,
    /// The latest prediction was right, and of a load.
    hid: bool,
    is_load: bool,
    counters: SpotCounters,
}

impl Predictor {
    /// An empty table of a valid spec.
    pub fn new(spec: &SpotSpec) -> Predictor {
        let sets = (spec.entries / spec.ways) as usize;
        Predictor {
            table: SetArray::new(sets, spec.ways as usize, Replacement::Lru),
            asid: Asid(0),
            current: None,
            hid: false,
            is_load: false,
            counters: SpotCounters::default(),
            spec: spec.clone(),
        }
    }

    fn place(&self, pc: VirtAddr) -> (usize, u64) {
        (mix64(pc.0) as usize & (self.table.sets() - 1), pc.0 << 16 | u64::from(self.asid.0))
    }

    /// The prediction for an access, or why there is none.
    fn predict(&mut self, va: VirtAddr, access: AccessKind, set: usize, key: u64) -> Result<Pfn, &'static str> {
        let Some(entry) = self.table.lookup(set, key).copied() else {
            self.counters.no_entry += 1;
            return Err("no entry for this instruction");
        };
        if entry.confidence < self.spec.confidence {
            self.counters.no_confidence += 1;
            return Err("the entry has too little confidence");
        }
        if access == AccessKind::Store && !entry.writable {
            self.counters.no_right += 1;
            return Err("the entry has no right to store");
        }
        u64::try_from(va.vpn().0 as i64 - entry.offset).map(Pfn).map_err(|_| "the address would be negative")
    }

    /// A walk found the page of an instruction with an entry.
    fn train(entry: &mut Entry, offset: i64, writable: bool, marked: bool, counters: &mut SpotCounters) {
        if entry.offset == offset {
            entry.confidence = (entry.confidence + 1).min(MOST);
            entry.writable = writable;
            return;
        }
        entry.confidence = entry.confidence.saturating_sub(1);
        if entry.confidence == 0 && marked {
            *entry = Entry { offset, writable, confidence: 1 };
            counters.new_offsets += 1;
        }
    }

    /// Makes an entry, if its set has room for it.
    fn fill(&mut self, set: usize, key: u64, entry: Entry) {
        if self.spec.keep_confident {
            let own = || self.table.iter().filter(|(own, ..)| *own == set);
            let unsure = own().find(|(_, _, entry)| entry.confidence == 0).map(|(_, key, _)| key);
            if own().count() == self.table.ways() {
                let Some(unsure) = unsure else {
                    self.counters.set_confident += 1;
                    return;
                };
                self.table.remove(set, unsure);
            }
        }
        self.counters.fills += 1;
        self.table.insert(set, key, entry);
    }
}

impl Speculator for Predictor {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn speculate(&mut self, pc: VirtAddr, va: VirtAddr, access: AccessKind, now: Cycle, _bus: Bus) -> Speculation {
        let mut guess = Speculation { latency: self.spec.latency, ..Speculation::default() };
        self.current = None;
        if access == AccessKind::Fetch {
            return guess;
        }
        self.counters.probes += 1;
        let (set, key) = self.place(pc);
        self.current = Some((set, key));
        self.is_load = access == AccessKind::Load;
        let predicted = self.predict(va, access, set, key);
        if let Ok(frame) = predicted {
            self.counters.predictions += 1;
            guess.data[0] = frame.start().offset(va.0 & 0xfff);
            guess.data_count = 1;
            guess.computes = Some(self.spec.flush_cycles);
        }
        watch::step(|| {
            let until = now.after(u64::from(self.spec.latency));
            let step = Step::look_up("SpOT prediction table", predicted.is_ok(), now, until)
                .source("Alverti et al., ISCA 2020")
                .address("instruction", pc.0)
                .shape(Shape::Ways {
                    set: set as u64,
                    sets: self.table.sets() as u64,
                    ways: self.table.ways() as u64,
                    first: 0,
                    used: Vec::new(),
                    way: None,
                });
            // What nothing computes with, nothing waits for.
            let step = if guess.computes.is_none() { step.behind() } else { step };
            let step = match self.table.peek(set, key) {
                Some(entry) => step.field("offset, pages", entry.offset).field("confidence", entry.confidence),
                None => step,
            };
            match predicted {
                Ok(_) => step.address("predicted address", guess.data[0].0),
                Err(why) => step.says(why),
            }
        });
        guess
    }

    fn learn(
        &mut self,
        va: VirtAddr,
        guessed: &Speculation,
        found: &Translation,
        _entry: Option<ambulator_base::PhysAddr>,
    ) {
        self.hid = false;
        let Some((set, key)) = self.current else { return };
        if guessed.data_count > 0 {
            let right = guessed.data[0] == found.physical(va);
            self.counters.right += u64::from(right);
            self.counters.wrong += u64::from(!right);
            self.hid = right && self.is_load;
        }
        let offset = va.vpn().0 as i64 - found.physical(va).pfn().0 as i64;
        let marked = found.ranged || !self.spec.marked_only;
        if let Some(entry) = self.table.peek_mut(set, key) {
            return Predictor::train(entry, offset, found.writable, marked, &mut self.counters);
        }
        if !marked {
            self.counters.unmarked += 1;
            return;
        }
        self.fill(set, key, Entry { offset, writable: found.writable, confidence: 1 });
    }

    fn learn_latency(&mut self, cycles: u64, _loads: u32) {
        if self.hid {
            self.counters.hidden_cycles += cycles.saturating_sub(u64::from(self.spec.latency));
        }
    }

    /// Predictions are verified, so a changed page needs nothing; what is left of an address space goes.
    fn invalidate(&mut self, what: Invalidation) {
        match what {
            Invalidation::Page { .. } => {}
            Invalidation::Asid(asid) => _ = self.table.invalidate(|key, _| key as u16 == asid.0),
            Invalidation::All => self.table.clear(),
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
        let predicts = |(_, _, entry): &(usize, u64, &Entry)| entry.confidence >= self.spec.confidence;
        let (entries, confident) = (self.table.len() as u64, self.table.iter().filter(predicts).count() as u64);
        SpotNow { entries, confident }.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
