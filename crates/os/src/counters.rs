//! What the kernel model counts.

ambulator_base::counters! {
    /// What the kernel model counts.
    pub struct KernelCounters {
        /// Page faults that mapped a 4 KiB page.
        faults_4k: Events,
        /// Page faults that mapped a 2 MiB page.
        faults_2m: Events,
        /// Page faults that mapped a 1 GiB page.
        faults_1g: Events,
        /// Faults on pages that were there by then.
        faults_spurious: Events,
        /// Stores that copied a shared page.
        copies_on_write: Events,
        /// Stores to a page that was shared once and is no longer: it became writable again.
        reuses_on_write: Events,
        /// Huge pages that a fault wanted and memory could not give.
        huge_fallbacks: Events,
        /// 2 MiB pages made of base pages, by the daemon or a full reservation.
        promotions: Events,
        /// Huge pages split into base pages.
        demotions: Events,
        /// Reservations of 2 MiB made.
        reservations: Events,
        /// Reservations given up before promotion.
        reservations_broken: Events,
        /// Pages moved into a segment of the placement's, as hardware hinted.
        migrations_in: Events,
        /// Pages moved out of one, to make room.
        migrations_out: Events,
        /// Pages written to swap.
        swap_outs: Events,
        /// Pages read from swap.
        swap_ins: Events,
        /// Clean pages that were dropped after `MADV_FREE`.
        lazy_drops: Events,
        /// Bytes zeroed.
        zeroed_bytes: Bytes,
        /// Bytes copied.
        copied_bytes: Bytes,
        /// Pages shot down one by one.
        shootdowns_page: Events,
        /// Whole address spaces shot down.
        shootdowns_space: Events,
        /// System calls that changed an address space.
        syscalls: Events,
        /// Switches between processes.
        context_switches: Events,
        /// Processes forked.
        forks: Events,
        /// Times that address-space identifiers ran out.
        asid_rollovers: Events,
        /// Rounds of background reclaim.
        background_reclaims: Events,
    }
}

ambulator_base::counters! {
    /// Cycles of the operating system, by cause.
    pub struct OsCycles {
        /// Entry, exit and book-keeping of page faults.
        fault: Cycles,
        /// Zeroing frames.
        zero: Cycles,
        /// Finding contiguous frames.
        allocate: Cycles,
        /// Copying pages.
        copy: Cycles,
        /// Page-table upkeep.
        table: Cycles,
        /// Shootdowns.
        shootdown: Cycles,
        /// Swap traffic.
        swap: Cycles,
        /// System calls.
        syscall: Cycles,
        /// Context switches.
        switch: Cycles,
    }
}
