//! The conventional path: TLBs, and walks on their misses, before the caches.

use super::Translator;
use crate::Stop;
use crate::machine::Located;
use ambulator_base::{AccessKind, Cycle, VirtAddr, watch};
use ambulator_mmu::Translated;

impl Translator<'_> {
    /// Translates by the MMU; serves faults until the page is mapped.
    #[inline(always)]
    pub(super) fn translate_conventionally(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        if access != AccessKind::Fetch
            && let Some((at, ready)) = self.hw.cores[number].mmu.recall(va, access, now)
        {
            if self.accepts(number, va, at, access) {
                return Ok(Located { at, ready, issued: now, known: ready });
            }
            return self.translate_further(number, va, access, now, Translated::Physical { at, ready });
        }
        // A translation without a fault must not pass through a `Result` of several words: on the sim host, a
        // wide load of words that were just stored one by one stalls, which costs a tenth of the run time
        // here.
        let result = self.translate_by_mmu(number, va, access, now);
        if let Translated::Physical { at, ready } = result
            && self.accepts(number, va, at, access)
        {
            return Ok(Located { at, ready, issued: now, known: ready });
        }
        self.translate_further(number, va, access, now, result)
    }

    /// The MMU's translation, not checked yet.
    #[inline(always)]
    fn translate_by_mmu(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Translated {
        if watch::watched() {
            return self.translate_watched(number, va, access, now);
        }
        self.hw.with_port(number, self.os.memories_mut(), |mmu, port| mmu.translate(va, access, now, port))
    }

    #[cold]
    fn translate_watched(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Translated {
        let before = self.hw.before_recorded(number);
        let result =
            self.hw.with_port(number, self.os.memories_mut(), |mmu, port| mmu.translate_watched(va, access, now, port));
        let (Translated::Physical { ready: until, .. } | Translated::Fault { at: until, .. }) = result;
        self.hw.record_translation(number, (va, access), (now, until), before);
        result
    }

    /// The rest of [`Translator::translate_conventionally`] when the first result was a fault, or was wrong.
    #[cold]
    pub(crate) fn translate_further(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        first: Translated,
    ) -> Result<Located, Stop> {
        let mut now = now;
        let mut faults = 0;
        let mut result = first;
        loop {
            match result {
                Translated::Physical { at, ready } => {
                    if !self.accepts(number, va, at, access) {
                        return Err(self.mismatch(number, va, Some(at), access));
                    }
                    return Ok(Located { at, ready, issued: now, known: ready });
                }
                Translated::Fault { cause, .. } => {
                    faults += 1;
                    now = self.fault(number, va, access, cause, faults)?;
                    result = self.translate_by_mmu(number, va, access, now);
                }
            }
        }
    }
}
