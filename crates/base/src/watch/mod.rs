//! The steps that hardware takes, for whoever watches.
//!
//! Models of hardware say what they do at the place where they do it: [`step`], [`open`] and [`close`], and
//! [`meaning`] for the bytes that a load returned. The closures run only on a thread that [`watch`]es.
//! Elsewhere each call is one load of a byte and a branch that is not taken. What is said changes nothing of
//! the model.

mod shape;

pub use shape::Shape;

use crate::{Cycle, PhysAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that watch.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A structure of the hardware is looked up: a TLB, a walk cache, a filter, registers.
    LookUp,
    /// The hardware computes: a hash, a model.
    Compute,
    /// Bytes are loaded from the memory hierarchy.
    Load,
    /// Nothing happens until something else has ended.
    Wait,
    /// A page walk; its steps are inside.
    Walk,
    /// A guest-physical address is translated for nested paging; its steps are inside.
    Translate,
    /// A structure beside the TLBs is probed; its steps are inside.
    Probe,
    /// A line is fetched on a guess, or ahead of its use.
    Fetch,
    /// Bytes of a table are written: accessed and dirty bits, counters.
    Write,
    /// An entry is put into a structure of the hardware.
    Fill,
    /// The caches are accessed before the translation goes on: not the MMU's time.
    Caches,
    /// The operating system or the hypervisor serves a fault.
    Fault,
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// The field's name in the field's words.
    pub name: String,
    /// A number, a flag, or a text; addresses and words are hexadecimal texts.
    pub value: Value,
}

/// A load's bytes, and where they came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadedBytes {
    /// The address in the machine's memory.
    #[serde(with = "hex")]
    #[schemars(with = "String")]
    pub at: u64,
    /// With nested paging, of a load of the guest's walker: the guest-physical address.
    #[serde(with = "hex_option", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub guest: Option<u64>,
    /// The words as they were loaded: one, or the eight of a line.
    #[serde(with = "hex_list")]
    #[schemars(with = "Vec<String>")]
    pub words: Vec<u64>,
    /// The level that served it: L1, L2, LLC or DRAM.
    pub served: String,
    /// Of a load from DRAM: what its row was, if that is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub row: String,
}

/// A step, with those inside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// The structure or action, such as "L2 TLB, 4 KiB" or "PTE".
    pub name: String,
    /// The answer or the result: "miss in set 3 of 16".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// When it begins, in cycles; at first a cycle of the run, later counted from the access.
    pub from: u64,
    /// When it has ended.
    pub until: u64,
    /// Nobody waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// It begins before an earlier step beside it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// Of a look-up, whether it hit; of a guess, whether it was right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit: Option<bool>,
    /// The load, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<LoadedBytes>,
    /// The place in the structure, for a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Of a load, the words that the hardware acts on, by their number among those loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<usize>,
    /// What was looked up, computed or loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Where this is published: paper and section.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The steps inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// An address or a word as text.
pub fn hexadecimal(word: u64) -> Value {
    Value::String(format!("{word:#x}"))
}

impl Step {
    /// A step from one cycle to another.
    pub fn new(kind: StepKind, name: impl Into<String>, from: Cycle, until: Cycle) -> Step {
        Step {
            kind,
            name: name.into(),
            says: String::new(),
            from: from.0,
            until: until.0.max(from.0),
            behind: false,
            parallel: false,
            hit: None,
            loaded: None,
            shape: None,
            touched: Vec::new(),
            fields: Vec::new(),
            source: String::new(),
            steps: Vec::new(),
        }
    }

    /// A look-up that hit or missed.
    pub fn look_up(name: impl Into<String>, hit: bool, from: Cycle, until: Cycle) -> Step {
        let says = if hit { "hit" } else { "miss" }.to_owned();
        Step { hit: Some(hit), says, ..Step::new(StepKind::LookUp, name, from, until) }
    }

    /// A computation.
    pub fn compute(name: impl Into<String>, from: Cycle, until: Cycle) -> Step {
        Step::new(StepKind::Compute, name, from, until)
    }

    /// An entry that is put into a structure at `at`.
    pub fn fill(name: impl Into<String>, at: Cycle) -> Step {
        Step::new(StepKind::Fill, name, at, at).behind()
    }

    /// Says the result.
    #[must_use]
    pub fn says(mut self, says: impl Into<String>) -> Step {
        self.says = says.into();
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Step {
        self.fields.push(Field { name: name.into(), value: value.into() });
        self
    }

    /// Adds a field that is an address or a word.
    #[must_use]
    pub fn address(self, name: impl Into<String>, word: u64) -> Step {
        self.field(name, hexadecimal(word))
    }

    /// Names the paper and its section.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Step {
        self.source = source.into();
        self
    }

    /// Says which place of a structure it looks at.
    #[must_use]
    pub fn shape(self, shape: Shape) -> Step {
        Step { shape: Some(shape), ..self }
    }

    /// Nobody waits for it.
    #[must_use]
    pub fn behind(self) -> Step {
        Step { behind: true, ..self }
    }
}

/// What the bytes of a load are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meaning {
    name: String,
    fields: Vec<Field>,
    source: String,
    shape: Option<Shape>,
    touched: Vec<usize>,
}

impl Meaning {
    /// Bytes with a name, such as "PTE", and the place where their layout is published.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Meaning {
        Meaning { name: name.into(), source: source.into(), ..Meaning::default() }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Meaning {
        self.fields.push(Field { name: name.into(), value: value.into() });
        self
    }

    /// Adds a field that is an address or a word.
    #[must_use]
    pub fn address(self, name: impl Into<String>, word: u64) -> Meaning {
        self.field(name, hexadecimal(word))
    }

    /// Says which place of a structure the bytes are.
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Meaning {
        self.shape = Some(shape);
        self
    }

    /// Says which of the loaded words the hardware acts on.
    #[must_use]
    pub fn touches(mut self, words: impl IntoIterator<Item = usize>) -> Meaning {
        self.touched.extend(words);
        self
    }

    /// The fields alone.
    pub fn into_fields(self) -> Vec<Field> {
        self.fields
    }

    /// Adds fields.
    #[must_use]
    pub fn fields(mut self, fields: impl IntoIterator<Item = Field>) -> Meaning {
        self.fields.extend(fields);
        self
    }
}

/// The steps so far.
#[derive(Default)]
struct Watch {
    /// The steps that are open, the innermost last.
    open: Vec<Step>,
    steps: Vec<Step>,
}

impl Watch {
    /// The list that the next step goes to.
    fn list(&mut self) -> &mut Vec<Step> {
        match self.open.last_mut() {
            Some(open) => &mut open.steps,
            None => &mut self.steps,
        }
    }

    fn close(&mut self) {
        if let Some(step) = self.open.pop() {
            self.list().push(step);
        }
    }
}

/// Whether anyone watches, on some thread. A cheap test before [`step`] and the others, which they contain.
#[inline(always)]
pub fn watched() -> bool {
    WATCHERS.load(Ordering::Relaxed) != 0
}

#[cold]
fn with(act: impl FnOnce(&mut Watch)) {
    WATCH.with_borrow_mut(|watch| watch.as_mut().map(act));
}

/// A step without steps inside.
#[inline(always)]
pub fn step(make: impl FnOnce() -> Step) {
    if watched() {
        with(|watch| {
            let step = make();
            watch.list().push(step);
        });
    }
}

/// A step begins, and those that follow are inside it until [`close`].
#[inline(always)]
pub fn open(make: impl FnOnce() -> Step) {
    if watched() {
        with(|watch| {
            let step = make();
            watch.open.push(step);
        });
    }
}

/// The innermost step that is open ends; `finish` completes it.
#[inline(always)]
pub fn close(finish: impl FnOnce(&mut Step)) {
    if watched() {
        with(|watch| {
            watch.open.last_mut().map(finish);
            watch.close();
        });
    }
}

/// The innermost step that is open ends. It counts only if steps are inside it.
#[inline(always)]
pub fn close_if_any() {
    if watched() {
        with(|watch| match watch.open.last() {
            Some(step) if step.steps.is_empty() => _ = watch.open.pop(),
            _ => watch.close(),
        });
    }
}

/// What the bytes of the latest load from `at` are, as the loading hardware addresses them. The load is beside
/// what happens now.
#[inline(always)]
pub fn meaning(at: PhysAddr, make: impl FnOnce() -> Meaning) {
    if watched() {
        with(|watch| {
            let is_it =
                |step: &&mut Step| step.loaded.as_ref().is_some_and(|loaded| loaded.guest.unwrap_or(loaded.at) == at.0);
            if let Some(load) = watch.list().iter_mut().rev().find(is_it) {
                let Meaning { name, fields, source, shape, touched } = make();
                (load.name, load.source, load.shape, load.touched) = (name, source, shape, touched);
                load.fields.extend(fields);
            }
        });
    }
}

/// Completes steps beside what happens now, such as guesses once the truth is known.
#[inline(always)]
pub fn amend(change: impl FnOnce(&mut [Step])) {
    if watched() {
        with(|watch| change(watch.list()));
    }
}

/// A watch of this thread, until it is dropped.
#[must_use]
#[derive(Debug)]
pub struct Watching {
    /// It stays on its thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCH.set(None);
        WATCHERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Begins to watch what hardware does on this thread. A watch inside another one takes over its steps.
pub fn start() -> Watching {
    WATCH.set(Some(Watch::default()));
    WATCHERS.fetch_add(1, Ordering::Relaxed);
    Watching { _here: std::marker::PhantomData }
}

/// The steps of this thread's watch since it began or since the last call, without those that are open.
pub fn take() -> Vec<Step> {
    let mut steps = Vec::new();
    if watched() {
        with(|watch| steps = std::mem::take(&mut watch.steps));
    }
    steps
}

/// Calls `act`, and returns the steps that hardware takes meanwhile on this thread. A watch inside another one
/// takes over its steps.
pub fn watch<T>(act: impl FnOnce() -> T) -> (T, Vec<Step>) {
    let watching = start();
    let done = act();
    with(|watch| {
        while !watch.open.is_empty() {
            watch.close();
        }
    });
    let steps = take();
    drop(watching);
    (done, steps)
}

/// Words as hexadecimal texts: a JSON reader need not hold 64 bits in a number.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn parse(text: &str) -> Option<u64> {
        u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }

    pub(super) fn serialize<S: Serializer>(word: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{word:#x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a hexadecimal word such as 0x1f")))
    }
}

mod hex_option {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(word: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match word {
            Some(word) => super::hex::serialize(word, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.as_deref().and_then(super::hex::parse))
    }
}

mod hex_list {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(words: &[u64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().map(|word| format!("{word:#x}")))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let words = Vec::<String>::deserialize(from)?;
        let parsed = |word: &String| {
            super::hex::parse(word).ok_or_else(|| D::Error::custom(format!("`{word}` is not a hexadecimal word")))
        };
        words.iter().map(parsed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(at: u64, now: u64) {
        step(|| Step {
            loaded: Some(LoadedBytes { at, guest: None, words: vec![7], served: "L2".into(), row: String::new() }),
            ..Step::new(StepKind::Load, "load", Cycle(now), Cycle(now + 10))
        });
    }

    fn walk() {
        open(|| Step::new(StepKind::Walk, "walk", Cycle(5), Cycle(5)));
        load(64, 5);
        load(128, 5);
        meaning(PhysAddr(64), || Meaning::new("PTE", "SDM").field("present", true));
        close(|step| step.until = 15);
    }

    #[test]
    fn steps_are_inside_the_step_that_is_open_and_bytes_get_their_meaning() {
        let ((), steps) = watch(walk);
        assert_eq!((steps.len(), steps[0].until, steps[0].steps.len()), (1, 15, 2));
        let [first, second] = steps[0].steps.as_slice() else { panic!("two loads") };
        assert_eq!((first.name.as_str(), first.fields[0].value.clone()), ("PTE", Value::Bool(true)));
        assert_eq!((second.name.as_str(), second.fields.len()), ("load", 0));
        let text = serde_json::to_string(&steps).unwrap();
        assert!(text.contains(r#""at":"0x40""#), "{text}");
        assert_eq!(serde_json::from_str::<Vec<Step>>(&text).unwrap(), steps);
    }

    #[test]
    fn without_a_watch_on_this_thread_nothing_is_made() {
        step(|| unreachable!("nobody watches"));
        let (other, steps) = watch(|| {
            let asks = std::thread::spawn(|| step(|| unreachable!("another thread watches")));
            open(|| Step::new(StepKind::Probe, "left open", Cycle(0), Cycle(0)));
            asks.join()
        });
        assert!(other.is_ok());
        assert_eq!(steps.len(), 1, "a step that was left open is not lost");
        let panics = std::panic::catch_unwind(|| watch(|| panic!("on the way")));
        assert!(panics.is_err());
        step(|| unreachable!("the watch ended with the panic"));
    }

    #[test]
    fn a_watch_that_goes_on_gives_its_steps_piece_by_piece() {
        let watching = start();
        walk();
        open(|| Step::new(StepKind::Fault, "under way", Cycle(9), Cycle(9)));
        assert_eq!(take().len(), 1, "the walk, without what is open");
        load(64, 10);
        close(|step| step.until = 20);
        let steps = take();
        assert_eq!((steps.len(), steps[0].steps.len()), (1, 1));
        assert!(take().is_empty());
        drop(watching);
        step(|| unreachable!("nobody watches any more"));
        assert!(take().is_empty());
    }
}
