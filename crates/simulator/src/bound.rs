//! Bounds of translation designs: the same machine and operating system, where translation takes no time.

use crate::catalogue::catalogue;
use crate::spec::{Spec, VirtualizationMode};
use ambulator_mmu::MmuSpec;
use ambulator_sockets::DesignSpec;

impl Spec {
    /// The machine that bounds what any translation hardware can gain under this spec's paging policy: page
    /// sizes, placement and the kernel's settings stay, so that page faults are the same, and every
    /// translation is known at once ([`MmuSpec::perfect`]). Its page table is the default one, where the
    /// policy allows it. Specs with equal policies have equal bounds. `None` if there is no such machine.
    pub fn bound(&self) -> Option<Spec> {
        let default = catalogue().default_spec().page_table;
        let tables = [default.as_str(), self.design.page_table.as_str()];
        // Some designs that place pages cannot be without their hardware.
        tables.iter().flat_map(|table| [false, true].map(|keep| (table, keep))).find_map(|(table, keep)| {
            let mut bound = self.clone();
            bound.mmu = MmuSpec { perfect: true, va_bits: self.mmu.va_bits, ..MmuSpec::default() };
            bound.design = DesignSpec { placement: self.design.placement.clone(), ..DesignSpec::with_table(table) };
            let placing = &self.design.placement;
            if keep {
                for (_, socket, _) in self.design.entries().into_iter().filter(|(.., name)| name == placing) {
                    bound.design.put(socket, placing);
                }
            }
            bound.forget_unused_settings();
            bound.validate().is_empty().then_some(bound)
        })
    }

    /// Whether something in this machine cannot be built: a bound, not a design.
    pub fn is_idealised(&self) -> bool {
        let idealised = |name: &str| catalogue().find(name).is_some_and(|design| design.idealised);
        self.mmu.perfect
            || self.virtualization.mode == VirtualizationMode::IdealShadow
            || self.design.entries().iter().any(|(.., name)| idealised(name))
            || self.virtualization.mode == VirtualizationMode::Nested
                && idealised(&self.virtualization.hypervisor_table)
    }

    /// Sets the settings of designs that are in no socket to their defaults.
    fn forget_unused_settings(&mut self) {
        let defaults = catalogue().default_settings();
        for (group, settings) in &defaults.0 {
            if crate::spec::unused(self, group).is_some() {
                self.settings.0.insert(group.clone(), settings.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{SpecRequest, load};

    fn spec(design: &str) -> crate::spec::Spec {
        load(&SpecRequest { design: Some(design.into()), ..SpecRequest::default() }).unwrap().spec
    }

    #[test]
    fn designs_with_one_paging_policy_share_a_bound_and_others_do_not() {
        let bound = |design: &str| spec(design).bound().unwrap_or_else(|| panic!("{design} has no bound"));
        let small = bound("radix");
        assert!(small.mmu.perfect && small == spec("perfect-tlb").bound().unwrap());
        for same in ["ecpt", "lvm", "l2tlb-128k", "midgard", "ideal", "perfect-speculation"] {
            assert!(bound(same) == small, "{same}");
        }
        let huge = bound("thp");
        assert!(
            huge != small && huge == bound("lvm-thp") && huge == bound("pom-tlb") && huge == bound("thp+perfect-tlb")
        );
        assert!(bound("rmm") == bound("clustered-tlb"), "one placement is one policy");
        for own in ["rmm", "utopia", "thp-khugepaged", "nested", "revelator"] {
            let own_bound = bound(own);
            assert!(own_bound != small && own_bound != huge, "{own}");
            assert_eq!(own_bound.design.placement, spec(own).design.placement);
        }
    }

    #[test]
    fn every_preset_has_a_bound_and_what_cannot_be_built_is_known() {
        for preset in crate::spec::presets().iter().filter(|preset| preset.kind == crate::spec::PresetKind::Design) {
            assert!(spec(preset.name).bound().is_some(), "{}", preset.name);
        }
        for name in ["perfect-tlb", "ideal", "ideal-thp", "ideal-shadow", "perfect-speculation"] {
            assert!(spec(name).is_idealised(), "{name}");
        }
        for name in ["radix", "thp", "rmm", "nested", "utopia"] {
            assert!(!spec(name).is_idealised(), "{name}");
        }
    }
}
