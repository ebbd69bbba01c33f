#![doc = include_str!("../README.md")]

use ambulator_sockets::Catalogue;

/// Lists all designs once. Everything else follows from their descriptors.
macro_rules! designs {
    ($($name:ident,)*) => {
        $(pub mod $name;)*

        /// Every design of this crate. The first page table is the default.
        pub fn catalogue() -> Catalogue {
            let mut catalogue = Catalogue::default();
            for descriptor in [$($name::descriptor(),)*] {
                let name = descriptor.name;
                if let Err(error) = catalogue.register(descriptor) {
                    panic!("the design `{name}` violates an invariant of the list: {error}");
                }
            }
            catalogue
        }
    };
}

designs! {
    radix,
    flattened,
    asap,
    dmt,
    ideal,
    hashed,
    ecpt,
    me_hpt,
    lvm,
    rmm,
    direct_segment,
    clustered_page_table,
    clustered_tlb,
    pom_tlb,
    utopia,
    revelator,
    spec_tlb,
    ca_paging,
    spot,
    perfect_speculation,
    tlb_sequential,
    tlb_stride,
    tlb_distance,
    tlb_h2,
    tlb_agile,
    midgard,
}
