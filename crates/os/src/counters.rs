//! Counters of the modelled kernel.

ambulator_base::counters! {
    /// Counters of the modelled kernel.
    pub struct KernelCounters {
        /// Page faults that mapped a 4 KiB page.
        faults_4k: Events,
        /// Page faults that mapped a 2 MiB page.
        faults_2m: Events,
        /// Page faults that mapped a 1 GiB page.
        faults_1g: Events,
        /// Faults on pages that were mapped by then.
        faults_spurious: Events,
        /// Stores that copied a shared page (copy-on-write).
        copies_on_write: Events,
        /// Stores to a page that is no longer shared, which became writable again.
        reuses_on_write: Events,
        /// Huge pages that a fault requested and the kernel could not allocate.
        huge_fallbacks: Events,
        /// Promotions of base pages to a 2 MiB page, by the daemon or a full reservation.
        promotions: Events,
        /// Huge pages split into base pages.
        demotions: Events,
        /// Reservations of 2 MiB blocks.
        reservations: Events,
        /// Reservations broken before promotion.
        reservations_broken: Events,
        /// Pages migrated into a segment of the placement on a hint of the hardware.
        migrations_in: Events,
        /// Pages migrated out of a segment of the placement to make room.
        migrations_out: Events,
        /// Pages written to swap.
        swap_outs: Events,
        /// Pages read from swap.
        swap_ins: Events,
        /// Clean pages dropped after `MADV_FREE`.
        lazy_drops: Events,
        /// Bytes zeroed.
        zeroed_bytes: Bytes,
        /// Bytes copied.
        copied_bytes: Bytes,
        /// TLB shootdowns of single pages.
        shootdowns_page: Events,
        /// TLB shootdowns of entire address spaces.
        shootdowns_space: Events,
        /// System calls that changed an address space.
        syscalls: Events,
        /// Context switches between processes.
        context_switches: Events,
        /// Forks.
        forks: Events,
        /// Address spaces that lost their identifier on a core, and their TLB entries there, to another one.
        asid_recycles: Events,
        /// Rounds of background reclaim.
        background_reclaims: Events,
    }
}

ambulator_base::counters! {
    /// Cycles of the operating system, by cause.
    pub struct OsCycles {
        /// Entry, exit and bookkeeping of page faults.
        fault: Cycles,
        /// Zeroing frames.
        zero: Cycles,
        /// Allocating contiguous frames.
        allocate: Cycles,
        /// Copying pages.
        copy: Cycles,
        /// Page-table maintenance.
        table: Cycles,
        /// TLB shootdowns.
        shootdown: Cycles,
        /// Swap traffic.
        swap: Cycles,
        /// System calls.
        syscall: Cycles,
        /// Context switches.
        switch: Cycles,
    }
}
