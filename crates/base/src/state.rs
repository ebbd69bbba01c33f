//! The state of a machine's components as bytes: one description of each component saves and loads it.
//!
//! A machine is assembled from its spec as always; then each component loads its state in place. Settings and
//! what the assembly makes are no part of the state. [`derive@State`] describes a struct whose fields have a
//! state themselves, and its compiler error is the reminder when one is forgotten.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Has a state, which an archive saves or loads.
pub trait State {
    /// Saves the state to `archive`, or loads it from there in place. Both go through the same parts in the
    /// same order.
    fn state(&mut self, archive: &mut Archive<'_>);
}

/// A list or an option of components that the assembled machine has already.
pub trait Each {
    /// The state of each. Their number must be the one that was saved.
    fn each(&mut self, archive: &mut Archive<'_>);
}

/// Bytes that are collected before they are written, and read at once.
const BUFFER: usize = 1 << 16;
/// Elements for which room is made before any of them has been read.
const TRUSTED: usize = 1 << 16;
/// Bytes of a part of a list that is mostly as new: a page of the sim host.
const PART: usize = 4096;

enum Mode<'a> {
    Save(&'a mut dyn Write),
    Load(&'a mut dyn Read),
}

/// Saves or loads the state of a machine's components.
pub struct Archive<'a> {
    mode: Mode<'a>,
    timed: bool,
    buffer: Vec<u8>,
    /// The first byte of the buffer that has not been taken.
    at: usize,
    bytes: u64,
    error: Option<String>,
    /// Shared components that have been saved or loaded, by address.
    shared: BTreeSet<usize>,
}

impl<'a> Archive<'a> {
    /// Saves to `to`. Without `timed`, time has not been simulated: what depends on times is left out.
    pub fn save(to: &'a mut dyn Write, timed: bool) -> Archive<'a> {
        Archive::new(Mode::Save(to), timed)
    }

    /// Loads from `from` what was saved with the same `timed`.
    pub fn load(from: &'a mut dyn Read, timed: bool) -> Archive<'a> {
        Archive::new(Mode::Load(from), timed)
    }

    fn new(mode: Mode<'a>, timed: bool) -> Archive<'a> {
        Archive {
            mode,
            timed,
            buffer: Vec::with_capacity(BUFFER),
            at: 0,
            bytes: 0,
            error: None,
            shared: BTreeSet::new(),
        }
    }

    /// Whether it loads.
    #[inline(always)]
    pub fn loads(&self) -> bool {
        matches!(self.mode, Mode::Load(_))
    }

    /// Whether times are part of the state.
    pub fn timed(&self) -> bool {
        self.timed
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether something has gone wrong: what is loaded from now on means nothing.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// Says what has gone wrong; the first sentence is kept.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.error.get_or_insert(why.into());
    }

    /// The machine has another `what` than the one whose state is loaded.
    #[cold]
    pub fn differs(&mut self, what: &str) {
        self.fail(format!("the state is of another machine: {what} differs"));
    }

    /// Saves or loads bytes as they are.
    #[inline(always)]
    pub fn raw(&mut self, bytes: &mut [u8]) {
        self.bytes += bytes.len() as u64;
        match &self.mode {
            Mode::Save(_) => {
                if self.buffer.len() + bytes.len() > BUFFER {
                    self.flush();
                }
                self.buffer.extend_from_slice(bytes);
            }
            Mode::Load(_) => match self.buffer.get(self.at..self.at + bytes.len()) {
                Some(there) => {
                    bytes.copy_from_slice(there);
                    self.at += bytes.len();
                }
                None => self.read_more(bytes),
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn flush(&mut self) {
        if let Mode::Save(to) = &mut self.mode
            && self.error.is_none()
            && let Err(error) = to.write_all(&self.buffer)
        {
            self.fail(format!("it cannot be written ({error})"));
        }
        self.buffer.clear();
    }

    #[cold]
    #[inline(never)]
    fn read_more(&mut self, bytes: &mut [u8]) {
        let mut done = 0;
        while done < bytes.len() && self.error.is_none() {
            let part = (self.buffer.len() - self.at).min(bytes.len() - done);
            bytes[done..done + part].copy_from_slice(&self.buffer[self.at..self.at + part]);
            done += part;
            self.at += part;
            if done < bytes.len() {
                self.buffer.resize(BUFFER, 0);
                let Mode::Load(from) = &mut self.mode else { return };
                let read = from.read(&mut self.buffer);
                self.at = 0;
                self.buffer.truncate(*read.as_ref().unwrap_or(&0));
                match read {
                    Ok(0) => self.fail("it ends too early"),
                    Ok(_) => {}
                    Err(error) => self.fail(format!("it cannot be read ({error})")),
                }
            }
        }
        bytes[done..].fill(0);
    }

    /// A number of elements; 0 once loading has failed.
    pub fn count(&mut self, own: usize) -> usize {
        let mut count = own as u64;
        count.state(self);
        if self.failed() && self.loads() { 0 } else { count as usize }
    }

    /// A number that both machines must share, such as the size of an array.
    pub fn equal(&mut self, own: usize, what: &str) {
        if self.count(own) != own && !self.failed() {
            self.differs(what);
        }
    }

    /// Whether a shared component, known by its address, comes for the first time: only then its state is
    /// saved or loaded.
    pub fn is_first(&mut self, address: usize) -> bool {
        let mut first = self.shared.insert(address);
        let own = first;
        first.state(self);
        if first != own {
            self.differs("what components share");
        }
        first && own
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// What has gone wrong, in a sentence; after loading also bytes that are left.
    pub fn end(mut self) -> Result<u64, String> {
        if self.loads() {
            let mut rest = [0];
            let left = self.at < self.buffer.len()
                || match &mut self.mode {
                    Mode::Load(from) => from.read(&mut rest).is_ok_and(|read| read > 0),
                    Mode::Save(_) => false,
                };
            if left {
                self.fail("it has more bytes than this machine's state");
            }
        } else {
            self.flush();
        }
        self.error.map_or(Ok(self.bytes), Err)
    }
}

macro_rules! numbers {
    ($($of:ty),*) => { $(
        impl State for $of {
            #[inline(always)]
            fn state(&mut self, archive: &mut Archive<'_>) {
                let mut bytes = self.to_le_bytes();
                archive.raw(&mut bytes);
                // Pages of the sim host that were never written stay so when they are saved.
                if archive.loads() {
                    *self = Self::from_le_bytes(bytes);
                }
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, f64);

impl State for usize {
    #[inline(always)]
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut wide = *self as u64;
        wide.state(archive);
        *self = wide as usize;
    }
}

impl State for bool {
    #[inline(always)]
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut byte = u8::from(*self);
        byte.state(archive);
        *self = byte != 0;
    }
}

impl State for () {
    fn state(&mut self, _archive: &mut Archive<'_>) {}
}

impl<T: ?Sized> State for PhantomData<T> {
    fn state(&mut self, _archive: &mut Archive<'_>) {}
}

impl State for String {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut bytes = std::mem::take(self).into_bytes();
        bytes.state(archive);
        *self = String::from_utf8(bytes).unwrap_or_default();
    }
}

impl<T: State, const N: usize> State for [T; N] {
    #[inline]
    fn state(&mut self, archive: &mut Archive<'_>) {
        self.iter_mut().for_each(|one| one.state(archive));
    }
}

macro_rules! tuples {
    ($($name:ident: $at:tt),*) => {
        impl<$($name: State),*> State for ($($name,)*) {
            #[inline]
            fn state(&mut self, archive: &mut Archive<'_>) {
                $( self.$at.state(archive); )*
            }
        }
    };
}
tuples!(A: 0, B: 1);
tuples!(A: 0, B: 1, C: 2);
tuples!(A: 0, B: 1, C: 2, D: 3);

impl<T: State + Default> State for Vec<T> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let count = archive.count(self.len());
        if !archive.loads() {
            return self.iter_mut().for_each(|one| one.state(archive));
        }
        self.clear();
        self.reserve(count.min(TRUSTED));
        while self.len() < count && !archive.failed() {
            let mut one = T::default();
            one.state(archive);
            self.push(one);
        }
    }
}

/// The state of a long list that is mostly as new (`#[state(sparse)]`). The sim host has no memory for pages of
/// zeros that were never written: saving does not write them, and loading into a new list neither.
pub fn sparse<T: State + Default + Clone + PartialEq>(list: &mut Vec<T>, archive: &mut Archive<'_>) {
    let count = archive.count(list.len());
    if list.len() != count {
        if Vec::<T>::new().try_reserve_exact(count).is_err() {
            return archive.fail(format!("a list of {count} elements is longer than memory"));
        }
        *list = vec![T::default(); count];
    }
    sparse_by(list, archive, T::state);
}

/// [`sparse`] for a list that the assembled machine has already, whose elements `state` saves or loads.
pub fn sparse_by<T: Default + Clone + PartialEq>(
    list: &mut [T],
    archive: &mut Archive<'_>,
    state: impl Fn(&mut T, &mut Archive<'_>),
) {
    let new = T::default();
    for part in list.chunks_mut((PART / size_of::<T>().max(1)).max(1)) {
        let was_used = part.iter().any(|one| *one != new);
        let mut used = was_used;
        used.state(archive);
        if used {
            part.iter_mut().for_each(|one| state(one, archive));
        } else if was_used {
            part.fill(new.clone());
        }
        if archive.failed() {
            return;
        }
    }
}

impl<T: State + Default> State for Box<[T]> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut list = std::mem::take(self).into_vec();
        list.state(archive);
        *self = list.into_boxed_slice();
    }
}

impl<T: State + Default> State for VecDeque<T> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut list = Vec::from(std::mem::take(self));
        list.state(archive);
        *self = list.into();
    }
}

impl<T: State + Default> State for Option<T> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut there = self.is_some();
        there.state(archive);
        if there != self.is_some() {
            *self = there.then(T::default);
        }
        if let Some(one) = self {
            one.state(archive);
        }
    }
}

impl<K: State + Default + Ord, V: State + Default> State for BTreeMap<K, V> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut list: Vec<(K, V)> = std::mem::take(self).into_iter().collect();
        list.state(archive);
        self.extend(list);
    }
}

impl<K: State + Default + Ord> State for BTreeSet<K> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut list: Vec<K> = std::mem::take(self).into_iter().collect();
        list.state(archive);
        self.extend(list);
    }
}

/// In the order of the keys. No result may depend on the order of such a map.
impl<K: State + Default + Ord + Hash, V: State + Default, S: BuildHasher> State for HashMap<K, V, S> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut list: Vec<(K, V)> = self.drain().collect();
        list.sort_by(|one, other| one.0.cmp(&other.0));
        list.state(archive);
        self.extend(list);
    }
}

impl<T: State> State for Range<T> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        self.start.state(archive);
        self.end.state(archive);
    }
}

impl<T: State + ?Sized> State for Box<T> {
    #[inline]
    fn state(&mut self, archive: &mut Archive<'_>) {
        (**self).state(archive);
    }
}

/// Components that share it save and load it once.
impl<T: State + ?Sized> State for Arc<Mutex<T>> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        if archive.is_first(Arc::as_ptr(self).cast::<()>() as usize) {
            crate::lock(self).state(archive);
        }
    }
}

impl State for Arc<[AtomicU32]> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        if archive.is_first(Arc::as_ptr(self).cast::<()>() as usize) {
            archive.equal(self.len(), "the length of a list");
            for one in self.iter() {
                let mut value = one.load(Ordering::Relaxed);
                value.state(archive);
                one.store(value, Ordering::Relaxed);
            }
        }
    }
}

impl<T: State + Copy> State for Cell<T> {
    fn state(&mut self, archive: &mut Archive<'_>) {
        self.get_mut().state(archive);
    }
}

fn each_of<T: State>(list: &mut [T], archive: &mut Archive<'_>) {
    archive.equal(list.len(), "the number of components");
    list.iter_mut().for_each(|one| one.state(archive));
}

impl<T: State> Each for Vec<T> {
    fn each(&mut self, archive: &mut Archive<'_>) {
        each_of(self, archive);
    }
}

impl<T: State> Each for Box<[T]> {
    fn each(&mut self, archive: &mut Archive<'_>) {
        each_of(self, archive);
    }
}

impl<T: State> Each for Option<T> {
    fn each(&mut self, archive: &mut Archive<'_>) {
        each_of(self.as_mut_slice(), archive);
    }
}

impl<T: State, const N: usize> Each for [Option<T>; N] {
    fn each(&mut self, archive: &mut Archive<'_>) {
        self.iter_mut().for_each(|one| one.each(archive));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, State};

    #[derive(Clone, Debug, Default, PartialEq, State)]
    enum Kind {
        #[default]
        None,
        Some(u32, Vec<u16>),
        Named {
            of: String,
        },
    }

    #[derive(Clone, Debug, Default, PartialEq, State)]
    struct Inner<T> {
        list: Vec<T>,
        map: HashMap<u64, Kind>,
    }

    #[derive(Debug, State)]
    struct Whole {
        #[state(skip)]
        setting: u32,
        inner: Inner<(u8, Option<i64>)>,
        deque: VecDeque<u64>,
        share: f64,
        #[state(each)]
        parts: Vec<Inner<bool>>,
        shared: [Arc<Mutex<u64>>; 2],
        random: Random,
        #[state(sparse)]
        counts: Vec<u16>,
    }

    fn whole(parts: usize) -> Whole {
        let shared = Arc::new(Mutex::new(0));
        Whole {
            setting: parts as u32,
            inner: Inner::default(),
            deque: VecDeque::new(),
            share: 0.0,
            parts: (0..parts).map(|_| Inner::default()).collect(),
            shared: [Arc::clone(&shared), shared],
            random: Random::new(1),
            counts: Vec::new(),
        }
    }

    fn saved(of: &mut Whole) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = Archive::save(&mut bytes, true);
        of.state(&mut archive);
        archive.end().unwrap();
        bytes
    }

    fn load(into: &mut Whole, bytes: &[u8]) -> Result<u64, String> {
        let mut from = bytes;
        let mut archive = Archive::load(&mut from, true);
        into.state(&mut archive);
        archive.end()
    }

    fn example() -> Whole {
        let mut one = whole(2);
        one.inner.list = (0..BUFFER as i64).map(|at| (at as u8, (at % 3 == 0).then_some(-at))).collect();
        one.inner.map =
            [(7, Kind::Some(1, vec![2, 3])), (1, Kind::Named { of: "a name".into() }), (3, Kind::None)].into();
        one.deque = [1, u64::MAX].into();
        one.share = 0.1;
        one.parts[1].list = vec![true, false];
        *crate::lock(&one.shared[0]) = 9;
        one.random.next_u64();
        one.counts = vec![0; 3 * PART + 5];
        (one.counts[PART], one.counts[3 * PART + 4]) = (3, 4);
        one
    }

    #[test]
    fn what_is_loaded_is_what_was_saved() {
        let mut one = example();
        let bytes = saved(&mut one);
        let mut other = whole(2);
        other.setting = 77;
        other.counts = vec![0; 3 * PART + 5];
        other.counts[0] = 9;
        other.inner.map.insert(99, Kind::None);
        assert_eq!(load(&mut other, &bytes), Ok(bytes.len() as u64));
        assert_eq!((other.setting, &other.inner, &other.deque, other.share), (77, &one.inner, &one.deque, 0.1));
        assert_eq!((&other.parts, &other.counts), (&one.parts, &one.counts));
        let mut new = whole(2);
        load(&mut new, &bytes).unwrap();
        assert_eq!(new.counts, one.counts);
        assert_eq!(*crate::lock(&other.shared[1]), 9);
        assert_eq!(other.random.next_u64(), one.random.next_u64());
        assert_eq!(saved(&mut other), saved(&mut one));
    }

    /// Resident bytes of this process.
    #[cfg(target_os = "linux")]
    fn resident() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        4096 * pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn parts_of_a_sparse_list_that_are_as_new_take_no_memory() {
        const BYTES: u64 = 512 << 20;
        let list = || vec![0u64; BYTES as usize / 8];
        let before = resident();
        let (mut one, mut other) = (list(), list());
        one[1 << 20] = 7;
        let mut bytes = Vec::new();
        let mut archive = Archive::save(&mut bytes, true);
        sparse(&mut one, &mut archive);
        archive.end().unwrap();
        for into in [&mut other, &mut Vec::new()] {
            let mut from = &bytes[..];
            let mut archive = Archive::load(&mut from, true);
            sparse(into, &mut archive);
            archive.end().unwrap();
            assert!(*into == one);
        }
        assert!(resident() < before + BYTES / 8, "{} more", resident() - before);
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let bytes = saved(&mut example());
        for length in [0, 7, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(load(&mut whole(2), &bytes[..length]), Err("it ends too early".into()), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(load(&mut whole(2), &longer).unwrap_err().contains("more bytes"));
        assert!(load(&mut whole(3), &bytes).unwrap_err().contains("number of components differs"));
    }
}
