//! The conventional path: TLBs, and walks where they miss, before the caches.

use crate::Stop;
use crate::machine::{Located, Machine};
use ambulator_base::{AccessKind, Cycle, VirtAddr};
use ambulator_mmu::Translated;

impl Machine {
    /// Asks the MMU; serves faults until the page is there.
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
                return Ok(Located { at, ready, issued: now });
            }
            return self.translate_further(number, va, access, now, Translated::Physical { at, ready });
        }
        // A translation without a fault must not pass through a `Result` of several words: on the sim host,
        // single words that are stored and loaded again as one wide word stall, and that costs a tenth of all
        // time here.
        let answer = self.ask_mmu(number, va, access, now);
        if let Translated::Physical { at, ready } = answer
            && self.accepts(number, va, at, access)
        {
            return Ok(Located { at, ready, issued: now });
        }
        self.translate_further(number, va, access, now, answer)
    }

    /// The MMU's answer.
    #[inline(always)]
    fn ask_mmu(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Translated {
        self.hw.with_port(number, self.os.memories_mut(), |mmu, port| mmu.translate(va, access, now, port))
    }

    /// What [`Machine::translate_conventionally`] does when the first answer was a fault, or was wrong.
    #[cold]
    fn translate_further(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        first: Translated,
    ) -> Result<Located, Stop> {
        let mut now = now;
        let mut faults = 0;
        let mut answer = first;
        loop {
            match answer {
                Translated::Physical { at, ready } => {
                    if !self.accepts(number, va, at, access) {
                        return Err(self.mismatch(number, va, Some(at), access));
                    }
                    return Ok(Located { at, ready, issued: now });
                }
                Translated::Fault { cause, .. } => {
                    faults += 1;
                    now = self.fault(number, va, access, cause, faults)?;
                    answer = self.ask_mmu(number, va, access, now);
                }
            }
        }
    }
}
