//! The radix page table of x86-64, the baseline of everything: four or five levels of 512 entries, leaves of 4 KiB, 2 MiB
//! and 1 GiB, page-walk caches split by level.
//!
//! Sources: Intel SDM volume 3, chapter 4 (format, levels, paging-structure caches); LVM Table 1 (sizes and latency of the
//! page-walk caches).
//!
//! - OS half: [`Tree`] with [`Plain`] nodes. A table frame is taken when the first page below it is mapped, and goes back
//!   when the last is unmapped.
//! - Hardware half: [`TreeWalker`]: all page-walk caches are probed at once, and then each level that they did not skip is
//!   one load after the other.
//!
//! Choices. INVLPG on real x86-64 processors drops the paging-structure caches of the whole address space; here it drops
//! the entries that lead to the page, as the papers' simulators have it. The walker sets accessed and dirty bits in leaves
//! only: the kernel makes entries that point to tables accessed from the start, as Linux does.

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
