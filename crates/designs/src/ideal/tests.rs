use super::*;
use ambulator_base::{PageSize, Pfn, ProcessId, Protection};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_os::Translations;
use ambulator_sockets::DesignParts;
use proptest::prelude::*;

fn mapping(va: u64, size: PageSize) -> Mapping {
    Mapping {
        page: Page::containing(VirtAddr(va), size),
        frame: Pfn(1 << 20),
        flags: PteFlags::user(Protection::READ_WRITE),
    }
}

/// A table on a machine with that address width, and the parts that create its walkers.
fn table(va_bits: u32, bed: &mut TestBed) -> (Translations, DesignParts) {
    let mut choice = crate::catalogue().choice("ideal");
    choice.va_bits = va_bits;
    let mut parts = crate::catalogue().build(&choice);
    (parts.translations.new_process(ProcessId(0), Asid(1), &mut bed.os()).unwrap(), parts)
}

#[test]
fn every_walk_is_one_load_found_or_not() {
    for va_bits in [48, 57] {
        let mut bed = TestBed::new(64 << 20).unwrap();
        let (mut table, mut parts) = table(va_bits, &mut bed);
        let pages = [
            (0x5555_5555_5000, PageSize::SIZE_4K),
            (0x5555_5560_0000, PageSize::SIZE_2M),
            (0x5555_8000_0000, PageSize::SIZE_1G),
        ];
        for (va, size) in pages {
            table.map(mapping(va, size), &mut bed.os()).unwrap();
        }
        let mut walker = (parts.new_walker)(0);
        walker.load_registers(Asid(1), &TableRegisters(table.registers()));
        let mut port = TestPort::new(&mut bed.memory, 100);
        let mut walk = |va: u64| walker.walk(VirtAddr(va), AccessKind::Load, Cycle(0), &mut port);
        for (va, size) in pages {
            let walk = walk(va);
            assert_eq!((walk.accesses, walk.ready), (1, Cycle(100)));
            assert!(matches!(walk.outcome, WalkOutcome::Mapped(found) if found.size == size));
        }
        for va in [0, 0x5555_5555_6000, 0x5555_5580_0000, 0x7fff_0000_0000] {
            let walk = walk(va);
            assert_eq!((walk.accesses, walk.ready), (1, Cycle(100)));
            assert_eq!(walk.outcome, WalkOutcome::NotMapped);
        }
    }
}

#[test]
fn a_destroyed_table_maps_nothing() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let (mut table, mut parts) = table(48, &mut bed);
    let registers = TableRegisters(table.registers());
    let mut early = (parts.new_walker)(0);
    early.load_registers(Asid(1), &registers);
    table.destroy(&mut bed.os());
    let mut late = (parts.new_walker)(1);
    late.load_registers(Asid(1), &registers);
    let mut port = TestPort::new(&mut bed.memory, 100);
    for walker in [&mut early, &mut late] {
        let walk = walker.walk(VirtAddr(0), AccessKind::Load, Cycle(0), &mut port);
        assert_eq!((walk.outcome, walk.accesses), (WalkOutcome::NotMapped, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), five in any::<bool>()) {
        let mut choice = crate::catalogue().choice("ideal");
        choice.va_bits = if five { 57 } else { 48 };
        let options = Options {
            seed,
            ops: 800,
            va_bits: choice.va_bits,
            max_loads: 1,
            ..Options::default()
        };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
