//! The bound of all speculation (Revelator Table 1).

use ambulator_base::{AccessKind, Asid, Cycle, PhysAddr, State, VirtAddr};
use ambulator_mmu::{Bus, Invalidation, Speculation, Speculator, TableRegisters, Translation};
use ambulator_sockets::{Descriptor, NoSettings, Parts, Socket};

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "perfect-speculation",
        "fetches the data at the L2 TLB miss, wherever it is: the bound of all speculation",
        "Revelator Table 1",
    )
    .fills(Socket::Speculation, "the data's own line, always")
    .formerly_called("perfect")
    .idealised()
    .settings::<NoSettings>()
    .build(|_, _| Parts { speculator: Some(Box::new(|_| Box::new(PerfectSpeculation))), ..Parts::default() })
}

/// Fetches the data at the L2 TLB miss, wherever it is.
#[derive(State)]
struct PerfectSpeculation;

impl Speculator for PerfectSpeculation {
    fn load_registers(&mut self, _asid: Asid, _registers: &TableRegisters) {}

    fn speculate(&mut self, _pc: VirtAddr, _va: VirtAddr, _access: AccessKind, _now: Cycle, _bus: Bus) -> Speculation {
        Speculation::default()
    }

    fn perfect(&self) -> bool {
        true
    }

    fn learn(&mut self, _va: VirtAddr, _guessed: &Speculation, _found: &Translation, _entry: Option<PhysAddr>) {}

    fn invalidate(&mut self, _what: Invalidation) {}
}
