//! Prefetchers: which lines an access suggests. They see physical addresses and never cross a 4 KiB page.

use crate::{CacheSpec, PrefetcherKind};
use ambulator_base::{FRAME_BYTES, LINE_BYTES, State, mix64};

const LINES_OF_PAGE: u64 = FRAME_BYTES / LINE_BYTES;
/// Number of repetitions of a stride or direction before it is followed.
const CONFIDENT: u8 = 2;

/// Lines to prefetch: `count` of them, from line number `first` in steps of `step` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suggestion {
    pub first: u64,
    pub step: i64,
    pub count: u32,
}

impl Suggestion {
    /// The suggested line numbers.
    pub fn lines(self) -> impl Iterator<Item = u64> {
        (0..i64::from(self.count)).map(move |i| self.first.wrapping_add_signed(self.step * i))
    }
}

/// The prefetcher of one cache.
#[derive(Clone, Debug, State)]
#[state(same)]
pub(crate) enum Prefetcher {
    None,
    IpStride(IpStride),
    Stream(Stream),
}

impl Prefetcher {
    pub fn new(spec: &CacheSpec) -> Prefetcher {
        let entries = spec.prefetch_entries as usize;
        let (degree, distance) = (spec.prefetch_degree, spec.prefetch_distance);
        match spec.prefetcher {
            PrefetcherKind::None => Prefetcher::None,
            PrefetcherKind::IpStride => Prefetcher::IpStride(IpStride {
                table: vec![Stride::default(); entries].into(),
                degree,
                distance: i64::from(distance),
            }),
            PrefetcherKind::Stream => Prefetcher::Stream(Stream {
                table: vec![Run::default(); entries].into(),
                degree,
                distance: i64::from(distance),
            }),
        }
    }

    #[inline(always)]
    pub fn is_some(&self) -> bool {
        !matches!(self, Prefetcher::None)
    }

    /// Trains on an access of the instruction at `pc` to byte address `at`; returns what to prefetch.
    #[inline]
    pub fn train(&mut self, pc: u64, at: u64) -> Suggestion {
        match self {
            Prefetcher::None => Suggestion::default(),
            Prefetcher::IpStride(ip) => ip.train(pc, at),
            Prefetcher::Stream(stream) => stream.train(at / LINE_BYTES),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, State)]
struct Stride {
    pc: u64,
    last: u64,
    stride: i64,
    confidence: u8,
}

/// A stride for each instruction, in a direct-mapped table by its address.
#[derive(Clone, Debug, State)]
pub(crate) struct IpStride {
    table: Box<[Stride]>,
    #[state(skip)]
    degree: u32,
    #[state(skip)]
    distance: i64,
}

impl IpStride {
    fn train(&mut self, pc: u64, at: u64) -> Suggestion {
        let index = mix64(pc) as usize & (self.table.len() - 1);
        let entry = &mut self.table[index];
        if entry.pc != pc {
            *entry = Stride { pc, last: at, stride: 0, confidence: 0 };
            return Suggestion::default();
        }
        let stride = at.wrapping_sub(entry.last) as i64;
        entry.last = at;
        if stride == 0 {
            return Suggestion::default();
        }
        if stride != entry.stride {
            // Adjacent virtual pages are not adjacent in physical memory: a jump to another page keeps the
            // stride, but not the position.
            if stride.unsigned_abs() < FRAME_BYTES || entry.confidence == 0 {
                entry.stride = stride;
                entry.confidence = 0;
            } else {
                entry.confidence -= 1;
            }
            return Suggestion::default();
        }
        entry.confidence = (entry.confidence + 1).min(CONFIDENT + 1);
        if entry.confidence < CONFIDENT {
            return Suggestion::default();
        }
        // Strides shorter than a line advance by whole lines.
        let step = if stride.unsigned_abs() < LINE_BYTES { stride.signum() } else { stride / LINE_BYTES as i64 };
        within_page(at / LINE_BYTES, step * self.distance, step, self.degree)
    }
}

/// `count` steps from `line + ahead`, as far as they stay within the page of `line`.
fn within_page(line: u64, ahead: i64, step: i64, count: u32) -> Suggestion {
    let offset = (line % LINES_OF_PAGE) as i64 + ahead;
    let inside = |offset: i64| (0..LINES_OF_PAGE as i64).contains(&offset);
    if !inside(offset) {
        return Suggestion::default();
    }
    let fitting = (0..count).take_while(|&i| inside(offset + step * i64::from(i))).count();
    Suggestion { first: line.wrapping_add_signed(ahead), step, count: fitting as u32 }
}

#[derive(Clone, Copy, Debug, Default, State)]
struct Run {
    /// Page number plus one, so that 0 means none.
    page: u64,
    last: i8,
    direction: i8,
    confidence: u8,
    /// Offset of the line up to which prefetches have been sent.
    sent: i8,
}

/// Ascending and descending runs of lines, one for each page, in a direct-mapped table by page.
#[derive(Clone, Debug, State)]
pub(crate) struct Stream {
    table: Box<[Run]>,
    #[state(skip)]
    degree: u32,
    #[state(skip)]
    distance: i64,
}

impl Stream {
    fn train(&mut self, line: u64) -> Suggestion {
        let page = line / LINES_OF_PAGE;
        let offset = (line % LINES_OF_PAGE) as i8;
        let index = mix64(page) as usize & (self.table.len() - 1);
        let run = &mut self.table[index];
        if run.page != page + 1 {
            *run = Run { page: page + 1, last: offset, direction: 0, confidence: 0, sent: offset };
            return Suggestion::default();
        }
        let direction = (offset - run.last).signum();
        if direction == 0 {
            return Suggestion::default();
        }
        run.last = offset;
        if direction != run.direction {
            run.direction = direction;
            run.confidence = 1;
            run.sent = offset;
            return Suggestion::default();
        }
        run.confidence = (run.confidence + 1).min(CONFIDENT);
        if run.confidence < CONFIDENT {
            return Suggestion::default();
        }
        // Continue after what was sent, but never behind the access itself.
        let step = i64::from(direction);
        let sent =
            if (i64::from(run.sent) - i64::from(offset)) * step > 0 { i64::from(run.sent) } else { i64::from(offset) };
        let room = self.distance - (sent - i64::from(offset)) * step;
        let count = room.clamp(0, i64::from(self.degree)) as u32;
        let suggestion = within_page(line, sent + step - i64::from(offset), step, count);
        run.sent = (sent + step * i64::from(suggestion.count)) as i8;
        suggestion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(kind: PrefetcherKind) -> Prefetcher {
        Prefetcher::new(&CacheSpec {
            prefetcher: kind,
            prefetch_degree: 2,
            prefetch_distance: 4,
            ..CacheSpec::default()
        })
    }

    fn lines(prefetcher: &mut Prefetcher, pc: u64, at: u64) -> Vec<u64> {
        prefetcher.train(pc, at).lines().collect()
    }

    #[test]
    fn a_stride_is_followed_once_it_repeats() {
        let mut ip = prefetcher(PrefetcherKind::IpStride);
        for i in 0..3 {
            assert_eq!(lines(&mut ip, 0x400, i * 128), Vec::<u64>::new(), "access {i}");
        }
        assert_eq!(lines(&mut ip, 0x400, 3 * 128), [6 + 8, 6 + 10]);
        assert_eq!(lines(&mut ip, 0x500, 4 * 128), Vec::<u64>::new(), "another instruction");
        assert_eq!(lines(&mut ip, 0x400, 4 * 128), [8 + 8, 8 + 10]);
    }

    #[test]
    fn no_prefetch_crosses_the_page() {
        for kind in [PrefetcherKind::IpStride, PrefetcherKind::Stream] {
            let mut prefetcher = prefetcher(kind);
            for page in [7u64, 3] {
                let mut any = 0;
                for line in 0..64 {
                    let found = lines(&mut prefetcher, 0x400, (page * 64 + line) * 64);
                    assert!(found.iter().all(|l| l / 64 == page), "{kind:?} {found:?}");
                    any += found.len();
                }
                assert!(any > 40, "{kind:?} suggested {any} lines in page {page}");
                for line in (0..64).rev() {
                    let found = lines(&mut prefetcher, 0x400, (page * 64 + line) * 64);
                    assert!(found.iter().all(|l| l / 64 == page), "{kind:?} {found:?}");
                }
            }
        }
    }

    #[test]
    fn a_stream_is_prefetched_once_up_to_its_distance() {
        let mut stream = prefetcher(PrefetcherKind::Stream);
        let mut sent: Vec<u64> = (0..20).flat_map(|line| lines(&mut stream, 0, line * 64)).collect();
        let all = sent.len();
        sent.dedup();
        assert_eq!(sent.len(), all, "no line twice");
        assert_eq!(sent, (3..=23).collect::<Vec<_>>());
    }
}
