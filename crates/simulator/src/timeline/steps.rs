//! Translations on a core's tracks: each that misses the L1 TLB is a slice, with its steps inside. Steps that
//! overlap with others, or that nobody waits for, are on tracks beside.

use super::memory::MemoryTracks;
use super::recording::{Clock, Level, Translated};
use crate::core::Core;
use ambulator_base::AccessKind;
use ambulator_base::watch::{Field, Step, StepKind};
use ambulator_mmu::MmuCounters;
use ambulator_timeline::{Event, Lanes, Sequence, Track, Value};
use std::borrow::Cow;

/// Cycles between two points of a core's instructions per cycle, at least.
const IPC_CYCLES: u64 = 1000;

/// The tracks of a core.
pub(super) struct CoreTracks {
    misses: Lanes,
    beside: Lanes,
    guesses: Track,
    known_lines: Lanes,
    prefetches: Lanes,
    under_way: Level,
    ipc: Track,
    /// Instructions and cycle at the last point.
    sampled: Option<(u64, u64)>,
    /// Page walks so far.
    walks: u64,
}

/// Where a step is.
#[derive(Clone, Copy)]
struct Place {
    /// Its track.
    lane: Track,
    /// The page walk that it belongs to.
    walk: Option<u64>,
    /// Nobody waits for what it is in.
    behind: bool,
}

/// The access in words.
fn access_name(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Fetch => "fetch",
    }
}

/// What became of a translation, if it is more than a hit in the L1 TLB.
struct Outcome {
    name: &'static str,
    /// Whether the L1 TLB hit; the L2 TLB, if it was looked up.
    l1_hit: bool,
    l2_hit: Option<bool>,
}

impl Outcome {
    fn of(before: &MmuCounters, after: &MmuCounters, steps: &[Step]) -> Option<Outcome> {
        let grew = |of: fn(&MmuCounters) -> u64| of(after) > of(before);
        let l1_hit = !grew(|c| c.l1d_tlb_misses) && !grew(|c| c.l1i_tlb_misses);
        let l2_hit = grew(|c| c.l2_tlb_hits);
        let name = if grew(|c| c.faults) {
            "page fault"
        } else if grew(|c| c.dirty_assists) {
            "dirty bit"
        } else if grew(|c| c.walks) {
            "page walk"
        } else if grew(|c| c.prefetch_hits) {
            "prefetched"
        } else if grew(|c| c.joined) {
            "joins a walk"
        } else if grew(|c| c.lookaside_hits) {
            "lookaside hit"
        } else if l2_hit {
            "L2 TLB hit"
        } else if !l1_hit || steps.iter().any(loads) {
            "other"
        } else {
            return None;
        };
        let l2_hit = (l2_hit || grew(|c| c.l2_tlb_misses)).then_some(l2_hit);
        Some(Outcome { name, l1_hit, l2_hit })
    }
}

fn loads(step: &Step) -> bool {
    step.loaded.is_some() || step.steps.iter().any(loads)
}

fn value(field: &Field) -> Value {
    match &field.value {
        serde_json::Value::Bool(flag) => Value::Flag(*flag),
        serde_json::Value::Number(number) => match number.as_u64() {
            Some(number) => Value::Number(number),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => {
            let word = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            word.map_or_else(|| Value::Text(text.clone()), Value::Address)
        }
        other => Value::Text(other.to_string()),
    }
}

/// The level that served a load.
fn level(served: &str) -> &'static str {
    ["L1", "L2", "LLC", "DRAM"].into_iter().find(|level| *level == served).unwrap_or("elsewhere")
}

/// A step as an event, without its flow. `is_inner` says that it is within a page walk.
fn event<'s>(step: &'s Step, walk: Option<u64>, is_inner: bool) -> Event<'s> {
    let category = match step.kind {
        StepKind::Load => "load",
        StepKind::Walk if is_inner => "inner walk",
        StepKind::Walk => "walk",
        StepKind::Fetch => "fetch",
        StepKind::Wait => "wait",
        _ => "step",
    };
    let mut event = Event::new(category, Cow::Borrowed(step.name.as_str()));
    if let Some(loaded) = &step.loaded {
        event = event.with("at", Value::Address(loaded.at));
        if let Some(guest) = loaded.guest {
            event = event.with("guest_at", Value::Address(guest));
        }
        event = event.with("from", Value::Name(level(&loaded.served)));
        if let [word] = loaded.words[..] {
            event = event.with("word", Value::Address(word));
        }
        if !loaded.row.is_empty() {
            event = event.with("row", Value::Text(loaded.row.clone()));
        }
    } else {
        if !step.says.is_empty() {
            event = event.with("says", Value::Text(step.says.clone()));
        }
        for field in &step.fields {
            event = event.with(field.name.as_str(), value(field));
        }
    }
    if let Some(hit) = step.hit {
        event = event.with(if step.kind == StepKind::Fetch { "right" } else { "hit" }, Value::Flag(hit));
    }
    if let Some(walk) = walk {
        event = event.with("walk", Value::Number(walk));
    }
    event
}

/// Of the arrays of a structure for all page sizes, which are looked up at once: the one that hits, or the
/// first.
fn one_look_up_each(steps: Vec<Step>) -> Vec<Step> {
    let structure = |step: &Step| step.name.split(',').next().map(str::to_owned);
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        let same = kept.last_mut().filter(|last| {
            let kind = (last.kind, step.kind) == (StepKind::LookUp, StepKind::LookUp);
            kind && (last.from, last.until) == (step.from, step.until) && structure(last) == structure(&step)
        });
        match same {
            Some(last) if step.hit == Some(true) => *last = step,
            Some(_) => {}
            None => kept.push(step),
        }
    }
    kept
}

impl CoreTracks {
    pub fn new(sequence: &mut Sequence, process: Track, number: usize) -> CoreTracks {
        let group = sequence.track(process, &format!("core {number}"), 10 + number as i32);
        let under_way = sequence.counter(group, "page walks under way", "walks", 5);
        let ipc = sequence.counter(group, "instructions per cycle", "instructions", 6);
        CoreTracks {
            misses: Lanes::new(group, "TLB misses and page walks", 0),
            beside: Lanes::new(group, "in parallel with these, or behind", 1),
            guesses: sequence.track(group, "guesses", 2),
            known_lines: Lanes::new(group, "data lines fetched early", 3),
            prefetches: Lanes::new(group, "prefetched table lines", 4),
            under_way: Level::new(under_way),
            ipc,
            sampled: None,
            walks: 0,
        }
    }

    /// A point of the core's instructions per cycle, now and then.
    pub fn sample(&mut self, sequence: &mut Sequence, clock: Clock, core: &Core) {
        let now = (core.counters.instructions, core.window.retired_cycle().0);
        let Some(last) = self.sampled else {
            self.sampled = Some(now);
            return;
        };
        if now.1 >= last.1 + IPC_CYCLES {
            sequence.measure(self.ipc, clock.cycle(last.1), (now.0 - last.0) as f64 / (now.1 - last.1) as f64);
            self.sampled = Some(now);
        }
    }

    /// A translation has ended.
    pub fn translation(&mut self, sequence: &mut Sequence, clock: Clock, told: Translated, memory: &mut MemoryTracks) {
        let Some(outcome) = Outcome::of(&told.before, &told.after, &told.steps) else { return };
        let (from, until) = (told.from.0, told.until.0.max(told.from.0));
        let lane = self.misses.take(sequence, clock.cycle(from), clock.cycle(until));
        let mut event = Event::new("miss", access_name(told.access))
            .with("address", Value::Address(told.va.0))
            .with("process", Value::Number(u64::from(told.process)))
            .with("outcome", Value::Name(outcome.name))
            .with("l1_tlb_hit", Value::Flag(outcome.l1_hit));
        if let Some(hit) = outcome.l2_hit {
            event = event.with("l2_tlb_hit", Value::Flag(hit));
        }
        sequence.begin(lane, clock.cycle(from), &event);
        self.place(sequence, clock, told.steps, (from, until), Place { lane, walk: None, behind: false }, memory);
        sequence.end(lane, clock.cycle(until));
    }

    /// Puts steps into the slice from `from` to `until` of a lane, or beside it.
    fn place(
        &mut self,
        sequence: &mut Sequence,
        clock: Clock,
        mut steps: Vec<Step>,
        (from, until): (u64, u64),
        place: Place,
        memory: &mut MemoryTracks,
    ) {
        steps.sort_by_key(|step| step.from);
        let mut free = from;
        for mut step in one_look_up_each(steps) {
            match step.kind {
                StepKind::Fill => continue,
                StepKind::Fetch => {
                    self.fetch(sequence, clock, &step);
                    continue;
                }
                _ => {}
            }
            let walk = match step.kind {
                StepKind::Walk if place.walk.is_none() => {
                    self.walks += 1;
                    self.under_way.add(clock.cycle(step.from), clock.cycle(step.until));
                    Some(self.walks)
                }
                _ => place.walk,
            };
            let nests = free <= step.from && step.until <= until;
            if nests {
                free = step.until;
            }
            let (begin, end) = (clock.cycle(step.from), clock.cycle(step.until));
            let inner = std::mem::take(&mut step.steps);
            let mut event = event(&step, walk, place.walk.is_some());
            let behind = place.behind || step.behind || step.until > until;
            if behind {
                event = event.with("behind", Value::Flag(true));
            }
            if let Some(loaded) = step.loaded.as_ref().filter(|loaded| loaded.served == "DRAM") {
                event.flows.push(memory.awaited(loaded.at, step.from, step.until));
            }
            let lane = if nests { place.lane } else { self.beside.take(sequence, begin, end) };
            if begin == end && inner.is_empty() {
                sequence.instant(lane, begin, &event);
                continue;
            }
            sequence.begin(lane, begin, &event);
            self.place(sequence, clock, inner, (step.from, step.until), Place { lane, walk, behind }, memory);
            sequence.end(lane, end);
        }
    }

    /// A line that is fetched on a guess, or ahead of its use.
    fn fetch(&mut self, sequence: &mut Sequence, clock: Clock, step: &Step) {
        let (begin, end) = (clock.cycle(step.from), clock.cycle(step.until));
        let event = event(step, None, false);
        if begin == end {
            sequence.instant(self.guesses, begin, &event);
            return;
        }
        let lanes = if step.hit.is_some() { &mut self.known_lines } else { &mut self.prefetches };
        let lane = lanes.take(sequence, begin, end);
        sequence.slice(lane, begin, end, &event);
    }

    /// What goes up and down.
    pub fn into_level(self) -> Level {
        self.under_way
    }
}
