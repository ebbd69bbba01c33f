//! One decoding of a program's stream for several machines: batches are decoded once, shared, and dropped
//! when the slowest machine has passed them.

use ambulator_base::{Batch, NamedRange, ProgramIdentity, RecordSource, SourceError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// A program's stream, shared by machines that each read it from the start at their own pace.
pub struct SharedStream {
    identity: ProgramIdentity,
    may_place: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    source: Box<dyn RecordSource>,
    /// Batches `first..first + window.len()`.
    window: VecDeque<Arc<Batch>>,
    first: usize,
    ended: bool,
    /// The next batch of each reader; `usize::MAX` for readers that have left.
    readers: Vec<usize>,
    failed: Option<String>,
}

impl SharedStream {
    /// A stream for `readers` machines, numbered from 0. A stream with more than one reader keeps the batches
    /// between its slowest and its fastest.
    pub fn new(source: Box<dyn RecordSource>, readers: usize) -> Arc<SharedStream> {
        Arc::new(SharedStream {
            identity: source.identity(),
            may_place: source.may_place(),
            inner: Mutex::new(Inner {
                source,
                window: VecDeque::new(),
                first: 0,
                ended: false,
                readers: vec![0; readers],
                failed: None,
            }),
        })
    }

    /// The program's identity.
    pub fn identity(&self) -> &ProgramIdentity {
        &self.identity
    }

    /// Whether the stream may say where its pages were in physical memory.
    pub fn may_place(&self) -> bool {
        self.may_place
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves the window consistent: batches are only added and dropped.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The next batch for `reader`, or `None` at the stream's end.
    ///
    /// # Errors
    /// The source's error, for every reader that reaches the damaged batch.
    pub fn next(&self, reader: usize) -> Result<Option<Arc<Batch>>, SourceError> {
        let mut inner = self.lock();
        let next = inner.readers[reader];
        while inner.first + inner.window.len() <= next {
            if inner.ended {
                return Ok(None);
            }
            if let Some(message) = &inner.failed {
                return Err(SourceError::new(message.clone()));
            }
            let slowest = inner.slowest();
            if inner.window.is_empty() && inner.first < slowest {
                // Nobody needs it.
                inner.skip(slowest);
                continue;
            }
            let mut batch = Batch { records: Vec::with_capacity(Batch::TARGET_RECORDS + 64), events: Vec::new() };
            match inner.source.fill(&mut batch) {
                Ok(true) => inner.window.push_back(Arc::new(batch)),
                Ok(false) => inner.ended = true,
                Err(error) => inner.failed = Some(error.message),
            }
        }
        let batch = Arc::clone(&inner.window[next - inner.first]);
        inner.readers[reader] = next + 1;
        inner.drop_passed();
        Ok(Some(batch))
    }

    /// `reader` stops reading.
    pub fn leave(&self, reader: usize) {
        let mut inner = self.lock();
        inner.readers[reader] = usize::MAX;
        inner.drop_passed();
    }

    /// The number of the next batch for `reader`; `usize::MAX` if it has left.
    pub fn position(&self, reader: usize) -> usize {
        self.lock().readers[reader]
    }

    /// `reader`, which has read nothing, reads from batch `number` on. What no reader needs is not kept.
    pub fn begin_at(&self, reader: usize, number: usize) {
        let mut inner = self.lock();
        inner.readers[reader] = number;
        inner.drop_passed();
    }

    /// The share of the source that has been read, if the source knows.
    pub fn progress(&self) -> Option<f64> {
        self.lock().source.progress()
    }

    /// The named parts of the address space, as far as the source has been read.
    pub fn named_ranges(&self) -> Vec<NamedRange> {
        self.lock().source.named_ranges()
    }

    /// Notes on the source as far as it has been read.
    pub fn notes(&self) -> Vec<String> {
        self.lock().source.notes()
    }
}

impl Inner {
    /// The first batch that some reader needs.
    fn slowest(&self) -> usize {
        self.readers.iter().copied().min().unwrap_or(usize::MAX)
    }

    /// Passes over batches up to number `to`, which nobody needs.
    fn skip(&mut self, to: usize) {
        if self.ended || self.failed.is_some() {
            return;
        }
        match self.source.skip(to - self.first) {
            Ok(passed) => {
                self.first += passed;
                self.ended = self.first < to;
            }
            Err(error) => self.failed = Some(error.message),
        }
    }

    fn drop_passed(&mut self) {
        let slowest = self.slowest();
        while self.first < slowest && self.window.pop_front().is_some() {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Record, VirtAddr};

    struct Counting(u64, u64);

    impl RecordSource for Counting {
        fn identity(&self) -> ProgramIdentity {
            ProgramIdentity::default()
        }

        fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            if self.0 == self.1 {
                return Err(SourceError::new("damaged"));
            }
            batch.records.push(Record { va: VirtAddr(self.0), ..Record::default() });
            self.0 += 1;
            Ok(true)
        }
    }

    #[test]
    fn every_reader_sees_every_batch_once_and_passed_batches_are_dropped() {
        let stream = SharedStream::new(Box::new(Counting(0, 10)), 2);
        for i in 0..6 {
            assert_eq!(stream.next(0).unwrap().unwrap().records[0].va, VirtAddr(i));
        }
        assert_eq!(stream.lock().window.len(), 6);
        for i in 0..4 {
            assert_eq!(stream.next(1).unwrap().unwrap().records[0].va, VirtAddr(i));
        }
        assert_eq!(stream.lock().window.len(), 2);
        stream.leave(1);
        assert_eq!(stream.lock().window.len(), 0);
        for i in 6..10 {
            assert_eq!(stream.next(0).unwrap().unwrap().records[0].va, VirtAddr(i));
        }
        assert_eq!(stream.next(0).unwrap_err().message, "damaged");
        assert_eq!(stream.next(0).unwrap_err().message, "damaged", "and again at the next call");
    }
}
