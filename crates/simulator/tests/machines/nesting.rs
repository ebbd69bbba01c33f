//! Virtual machines: any guest table over any hypervisor table, and designs that cannot run in a virtual
//! machine.

use crate::support;
use ambulator_base::{MapKind, Protection};
use ambulator_designs::catalogue;
use ambulator_simulator::Status;
use ambulator_simulator::spec::{SpecRequest, load};
use ambulator_sockets::Socket;
use support::{DATA, Scripted, outcome, run};

fn tables() -> Vec<&'static str> {
    catalogue().filling(Socket::PageTable).map(|design| design.name).collect()
}

/// Touches fresh pages in its region, so that guest and hypervisor fault; meanwhile maps more and unmaps some
/// of it.
fn growing() -> Scripted {
    let mut program = Scripted::new(4 << 20);
    program.touch(DATA, 1 << 20, true).begin();
    for i in 0..1500_u64 {
        program.store(DATA + i * 37 % 1024 * 4096);
    }
    let more = DATA + (64 << 20);
    program.map(more, 2 << 20, Protection::READ_WRITE, MapKind::Anonymous);
    for i in 0..512 {
        program.load(more + i * 4096).load(DATA + i * 4096);
    }
    program.event(ambulator_base::VmEvent::Unmap { start: ambulator_base::VirtAddr(more), len: 1 << 20 });
    for i in 0..1000_u64 {
        program.load(more + (1 << 20) + i * 7 % 256 * 4096).load(DATA + i * 4096);
    }
    program
}

/// The oracle is on: every translation of a completed run matched the kernels.
#[test]
fn any_table_works_for_a_guest_and_for_a_hypervisor() {
    let program = growing();
    for guest in tables() {
        let settings: Vec<[String; 4]> = tables()
            .iter()
            .map(|hypervisor| {
                [
                    "virtualization.mode=nested".to_owned(),
                    "memory.bytes=512MiB".to_owned(),
                    format!("design.page_table={guest}"),
                    format!("virtualization.hypervisor_table={hypervisor}"),
                ]
            })
            .collect();
        let settings: Vec<Vec<&str>> =
            settings.iter().map(|options| options.iter().map(String::as_str).collect()).collect();
        let jobs: Vec<(&str, &[&str])> = settings.iter().map(|options| ("radix", options.as_slice())).collect();
        for (done, hypervisor) in outcome(&jobs, vec![program.clone()], 2).runs.iter().zip(tables()) {
            assert_eq!(done.status, Status::Done, "{guest} over {hypervisor}: {:?}", done.outcome);
            assert!(done.checked_translations > 4500, "{guest} over {hypervisor}");
        }
    }
}

#[test]
fn huge_pages_of_a_learned_guest_over_huge_pages_of_the_hypervisor() {
    for (design, page) in [("lvm-thp+nested", "4KiB"), ("lvm-thp+nested", "2MiB"), ("ecpt-thp+nested", "2MiB")] {
        let hypervisor_page = format!("virtualization.hypervisor_page={page}");
        let done = run(design, &[&hypervisor_page], &growing());
        assert_eq!(done.status, Status::Done, "{design}, {page}: {:?}", done.outcome);
    }
}

#[test]
fn lookasides_with_guest_physical_addresses_are_rejected_in_a_virtual_machine() {
    for design in ["utopia", "direct-segment"] {
        let request = SpecRequest { design: Some(format!("{design}+nested")), ..SpecRequest::default() };
        let error = load(&request).unwrap_err().to_string();
        let said = format!("`design.lookaside` is \"{design}\", which cannot run in a virtual machine: ");
        assert!(error.contains(&said) && error.contains("would hold guest-physical addresses"), "{design}: {error}");
        assert!(error.contains("is set here"), "{design}: {error}");
    }
    assert!(load(&SpecRequest { design: Some("pom-tlb+nested".into()), ..SpecRequest::default() }).is_ok());
}

/// Its entries are complete translations, and its memory the machine's: it hits in a virtual machine as it
/// does on the machine itself, and spares the two-dimensional walks.
#[test]
fn a_tlb_in_memory_hits_in_a_virtual_machine() {
    let mut program = Scripted::new(16 << 20);
    program.touch(DATA, 16 << 20, true).begin();
    for i in 0..12_000_u64 {
        program.load(DATA + i * 37 % 4096 * 4096);
    }
    for page in ["4KiB", "2MiB"] {
        let page = format!("virtualization.hypervisor_page={page}");
        let settings = [page.as_str(), "kernel.page_size_policy=never"];
        let [native, nested, walked] =
            [("pom-tlb", &settings[1..]), ("pom-tlb+nested", &settings), ("nested", &settings)]
                .map(|(design, settings)| run(design, settings, &program));
        assert_eq!(nested.status, Status::Done, "{:?}", nested.outcome);
        let hits = |done| support::counter(done, "mmu.lookaside.hits");
        // All pages fit. Each is walked for once.
        assert!(hits(&native) > 7000, "{}", hits(&native));
        assert_eq!(hits(&nested), hits(&native));
        let walks = |done| support::counter(done, "mmu.walks");
        assert!(walks(&nested) < walks(&walked) / 2, "{} and {}", walks(&nested), walks(&walked));
        let loads = |done| support::counter(done, "mmu.walk_accesses");
        assert!(loads(&nested) < loads(&walked) / 2, "{} and {}", loads(&nested), loads(&walked));
    }
}
