//! The radix page table of x86-64, the baseline of all designs: four or five levels of 512 entries, leaves of
//! 4 KiB, 2 MiB and 1 GiB, page-walk caches split by level.
//!
//! Sources: Intel SDM volume 3, chapter 4 (format, levels, paging-structure caches); LVM Table 1 (sizes and
//! latency of the page-walk caches).
//!
//! - OS half: [`Tree`] with [`Plain`] nodes. A table's frame is allocated when the first page below it is
//!   mapped and freed when the last is unmapped.
//! - Hardware half: [`TreeWalker`] probes all page-walk caches at once and then loads one entry after the
//!   other, one for each level that the caches do not skip.
//!
//! Choices. INVLPG on real x86-64 processors invalidates the paging-structure caches of the whole address
//! space. Here it invalidates only the entries that lead to the page, as in the papers' simulators. The
//! walker sets accessed and dirty bits only in leaves: the kernel creates entries that point to tables as
//! accessed, as Linux does.

#[cfg(test)]
mod tests;

use ambulator_sockets::{Claims, Descriptor, NoSettings, Parts, Socket, TableParts};
use ambulator_structures::tree::{Plain, Tree, TreeWalker};

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "radix",
        "four or five levels of 512 entries, page-walk caches split by level",
        "Intel SDM volume 3, chapter 4",
    )
    .fills(Socket::PageTable, "a load for each level that the page-walk caches do not skip")
    .takes_nodes()
    .claims(Claims { max_loads: 5, ..Claims::default() })
    .formerly("design.page_table.radix.levels", "mmu.va_bits")
    .formerly("design.page_table.radix.pwc.", "mmu.pwc.")
    .settings::<NoSettings>()
    .build(|_, site| {
        let (va_bits, pwc, mut nodes) = (site.va_bits, site.pwc, site.nodes);
        let page_table = TableParts::new(
            move |process, asid, context| {
                Ok(match &mut nodes {
                    Some(nodes) => Box::new(Tree::new(nodes(process, asid), va_bits, context)?),
                    None => Box::new(Tree::new(Plain, va_bits, context)?),
                })
            },
            move |_| Box::new(TreeWalker::new(&pwc)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
