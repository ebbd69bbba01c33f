"""The mistakes that `scripts/mutants.py` plants, and the tests that must see them."""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    text: str
    mistake: str
    # What follows `cargo test`: as narrow as it can be.
    test: str


DESIGNS, STRUCTURES, MMU, OS, SIMULATOR, HARDWARE = (
    f"crates/{crate}/src" for crate in ("designs", "structures", "mmu", "os", "simulator", "hardware")
)
CHANNEL = "-p ambulator-hardware --lib channel::"
INVALIDATION = "-p ambulator-mmu --test integration invalidation::"
PIPELINE = "-p ambulator-mmu --test integration pipeline::"
MMU_UNITS = "-p ambulator-mmu --lib"
OS_SPACES = "-p ambulator-os --test integration address_spaces::"
OS_RECLAIM = "-p ambulator-os --test integration reclaim::"
ADDRESS_SPACES = "-p ambulator-simulator --test machines address_spaces::"
UNDER_KERNEL = "-p ambulator-designs --test integration kernel::"
ORACLE = "-p ambulator-simulator --lib oracle"


def units(filter):
    return f"-p ambulator-designs --lib {filter}"


def structures(filter):
    return f"-p ambulator-structures --lib {filter}"


MUTANTS = [
    # Utopia.
    Mutant(
        "utopia-tag-skips-a-bit",
        f"{DESIGNS}/utopia/rows.rs",
        "u64::from(field(words, self.tag_at(way), self.tag_bits) == tag) << way",
        "u64::from((field(words, self.tag_at(way), self.tag_bits) ^ tag) & !1 == 0) << way",
        units("utopia"),
    ),
    Mutant(
        "utopia-paper-tag-skips-a-bit",
        f"{DESIGNS}/utopia/rows.rs",
        """[$(field(words, 16 * METADATA_BITS + $way * 23, 23) as u32),*] };
    }
    u64::from(matches(&tags!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15), tag as u32))""",
        """[$(field(words, 16 * METADATA_BITS + $way * 23, 23) as u32 | 1),*] };
    }
    u64::from(matches(&tags!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15), tag as u32 | 1))""",
        units("utopia"),
    ),
    Mutant(
        "utopia-ignores-the-valid-bit",
        f"{DESIGNS}/utopia/rows.rs",
        "if self.metadata(words, way) & VALID != 0 {",
        "if way < self.ways {",
        units("utopia"),
    ),
    Mutant(
        "utopia-tar-cache-keeps-changed-lines",
        f"{DESIGNS}/utopia/walker.rs",
        "let dropped = [self.rows.drop_line(word(at)), self.filters.drop_line(word(at + 1))];",
        "let dropped = [self.filters.drop_line(word(at + 1))];",
        UNDER_KERNEL,
    ),
    Mutant(
        "utopia-sf-cache-keeps-changed-lines",
        f"{DESIGNS}/utopia/walker.rs",
        "let dropped = [self.rows.drop_line(word(at)), self.filters.drop_line(word(at + 1))];",
        "let dropped = [self.rows.drop_line(word(at))];",
        UNDER_KERNEL,
    ),
    Mutant(
        "utopia-caches-miss-many-changes",
        f"{DESIGNS}/utopia/walker.rs",
        "if changes.wrapping_sub(known) > RECENT as u64 {",
        "if changes.wrapping_sub(known) > 1 << 40 {",
        units("utopia"),
    ),
    Mutant(
        "utopia-sets-no-dirty-bit",
        f"{DESIGNS}/utopia/walker.rs",
        "let dirties = access == AccessKind::Store && flags(metadata).writable;",
        "let dirties = access == AccessKind::Fetch && flags(metadata).writable;",
        units("utopia"),
    ),
    Mutant(
        "utopia-large-page-frames",
        f"{DESIGNS}/utopia/segments.rs",
        "base.offset(self.order.number(set, way, self.sets, self.ways) * self.page.frames())",
        "base.offset(self.order.number(set, 0, self.sets, self.ways) * self.page.frames() + u64::from(way))",
        UNDER_KERNEL,
    ),
    # Other lookasides and caches of designs.
    Mutant(
        "rmm-range-tlb-not-invalidated",
        f"{DESIGNS}/rmm/range_tlb.rs",
        "self.entries.retain(|entry| stays(entry.asid, &entry.range));",
        "self.entries.retain(|entry| what != Invalidation::All || stays(entry.asid, &entry.range));",
        UNDER_KERNEL,
    ),
    Mutant(
        "rmm-range-tlb-of-any-process",
        f"{DESIGNS}/rmm/range_tlb.rs",
        "entry.asid == self.asid && entry.range.contains(page)",
        "entry.range.contains(page)",
        UNDER_KERNEL,
    ),
    Mutant(
        "clustered-tlb-page-not-invalidated",
        f"{DESIGNS}/clustered_tlb/mod.rs",
        "cached.into_iter().for_each(|page| self.drop_page(asid, page));",
        "cached.into_iter().skip(1).for_each(|page| self.drop_page(asid, page));",
        UNDER_KERNEL,
    ),
    Mutant(
        "clustered-tlb-takes-other-clusters",
        f"{DESIGNS}/clustered_tlb/mod.rs",
        "&& pte.frame().0 & !(CLUSTER - 1) == frame;",
        "&& pte.frame().0 >= frame;",
        UNDER_KERNEL,
    ),
    Mutant(
        "pom-tlb-page-not-cleared",
        f"{DESIGNS}/pom_tlb/mod.rs",
        "if port.peek_line(at)[at.0 as usize % 64 / 8] == tag {",
        "if port.peek_line(at)[at.0 as usize % 64 / 8] == tag + 1 {",
        UNDER_KERNEL,
    ),
    Mutant(
        "pom-tlb-tag-without-process",
        f"{DESIGNS}/pom_tlb/mod.rs",
        "VALID | large | u64::from(asid.0 & Asid::MAX.0) << TAG_ASID_AT | va.0 >> size.shift()",
        "VALID | large | u64::from(asid.0 & 0x2000) << TAG_ASID_AT | va.0 >> size.shift()",
        UNDER_KERNEL,
    ),
    Mutant(
        "pom-tlb-address-space-not-cleared",
        f"{DESIGNS}/pom_tlb/mod.rs",
        "Invalidation::Asid(asid) => tag >> TAG_ASID_AT & u64::from(Asid::MAX.0) == u64::from(asid.0),",
        "Invalidation::Asid(_) => false,",
        "-p ambulator-designs pom_tlb",
    ),
    Mutant(
        "lvm-walk-cache-keeps-a-trained-model",
        f"{DESIGNS}/lvm/walker.rs",
        "cache.retain(|tag, _| tag != stale);",
        "cache.retain(|tag, _| tag != stale + 1);",
        units("lvm"),
    ),
    Mutant(
        "lvm-walk-cache-keeps-a-former-index",
        f"{DESIGNS}/lvm/walker.rs",
        "if old_index != index || changes.wrapping_sub(old_changes) > 1 {",
        "if changes.wrapping_sub(old_changes) > 1 {",
        units("lvm"),
    ),
    Mutant(
        "lvm-walk-cache-of-any-process",
        f"{DESIGNS}/lvm/walker.rs",
        "number << 20 | (level as u64) << 16 | u64::from(asid.0)",
        "number << 20 | (level as u64) << 16 | u64::from(asid.0.min(1))",
        units("lvm"),
    ),
    Mutant(
        "lvm-search-ends-a-line-early",
        f"{DESIGNS}/lvm/walker.rs",
        "for (step, distance) in search_order(self.extra).enumerate() {",
        "for (step, distance) in search_order(self.extra - 1).enumerate() {",
        units("lvm"),
    ),
    Mutant(
        "lvm-insertion-beyond-the-search",
        f"{DESIGNS}/lvm/insert.rs",
        "let Some(slot) = place(predicted, self.spec.max_extra, is_free) else { return false };",
        "let Some(slot) = place(predicted, self.spec.max_extra + 2, is_free) else { return false };",
        units("lvm"),
    ),
    Mutant(
        "lvm-rescale-leaves-the-intercept",
        f"{DESIGNS}/lvm/insert.rs",
        "let intercept = intercept.wrapping_sub(((old.base.0 / 8) << FRACTION) as i64);",
        "let intercept = found.node.intercept.max(intercept.min(found.node.intercept));",
        units("lvm"),
    ),
    Mutant(
        "lvm-tag-compare-skips-a-part",
        f"{DESIGNS}/lvm/node.rs",
        "(word & (TAG_LOW | TAG_HIGH)) == tag(page >> order_of(word))",
        "(word & TAG_LOW) == tag(page >> order_of(word)) & TAG_LOW",
        units("lvm"),
    ),
    Mutant(
        "ecpt-walk-caches-outlive-their-tables",
        f"{DESIGNS}/ecpt/walker.rs",
        "if self.asid != Some(asid) || self.generation != generation {",
        "if self.asid != Some(asid) {",
        units("ecpt"),
    ),
    Mutant(
        "ecpt-tag-skips-a-bit",
        f"{DESIGNS}/ecpt/slot.rs",
        "Self::tag(words) == key",
        "(Self::tag(words) ^ key) & !(1 << 10) == 0",
        units("ecpt"),
    ),
    Mutant(
        "hashed-tag-without-size",
        f"{DESIGNS}/hashed/mod.rs",
        "((va.0 >> size.shift()) << 8) | u64::from(size.shift())",
        "((va.0 >> size.shift()) << 8) | 12",
        units("hashed"),
    ),
    Mutant(
        "me-hpt-large-entries-begin-one-further",
        f"{DESIGNS}/me_hpt/l2p.rs",
        "(LARGE, _) => 3 * share - 1 - i,",
        "(LARGE, _) => 3 * share - 2 - i,",
        units("me_hpt"),
    ),
    Mutant(
        "midgard-areas-not-invalidated",
        f"{DESIGNS}/midgard/front_side.rs",
        "self.areas.retain(|entry| entry.asid != asid || entry.area.limit <= first || end <= entry.area.base);",
        "self.areas.retain(|entry| entry.asid != asid || entry.area.limit <= first || entry.area.base <= first);",
        units("midgard"),
    ),
    Mutant(
        "midgard-areas-of-any-process",
        f"{DESIGNS}/midgard/front_side.rs",
        "find(|entry| entry.asid == asid && entry.area.contains(page))?;",
        "find(|entry| entry.asid >= asid.min(entry.asid) && entry.area.contains(page))?;",
        UNDER_KERNEL,
    ),
    # Structures that designs share.
    Mutant(
        "walk-cache-page-not-invalidated",
        f"{STRUCTURES}/tree/walk_cache.rs",
        "level.array.remove(set, key);",
        "level.array.remove(set, key + (1 << 16));",
        units("radix"),
    ),
    Mutant(
        "walk-cache-large-page-not-invalidated",
        f"{STRUCTURES}/tree/walk_cache.rs",
        "level.array.retain(|key, _| key as u16 != asid.0 || !(first..=last).contains(&(key >> 16)));",
        "level.array.retain(|key, _| key as u16 != asid.0 || first != key >> 16);",
        units("radix"),
    ),
    Mutant(
        "walk-cache-of-any-process",
        f"{STRUCTURES}/tree/walk_cache.rs",
        "(set as usize, number << 16 | u64::from(asid.0))",
        "(set as usize, number << 16 | u64::from(asid.0.min(1)))",
        units("radix"),
    ),
    Mutant(
        "tree-no-dirty-bit",
        f"{STRUCTURES}/pte.rs",
        "let dirty = if store && self.0 & Pte::WRITABLE != 0 { Pte::DIRTY } else { 0 };",
        "let dirty = if store && self.0 & Pte::WRITABLE == 0 { Pte::DIRTY } else { 0 };",
        units("radix"),
    ),
    Mutant(
        "cuckoo-rehash-pointer-one-too-far",
        f"{STRUCTURES}/elastic/way.rs",
        "Some(resize) if old < resize.pointer => {",
        "Some(resize) if old <= resize.pointer => {",
        structures("elastic"),
    ),
    Mutant(
        "cuckoo-rehash-skips-what-found-no-place",
        f"{STRUCTURES}/elastic/resize.rs",
        "arena.exchange(from, Some(entry));",
        "drop(entry);",
        structures("elastic"),
    ),
    Mutant(
        "cuckoo-cancel-takes-other-entries-back",
        f"{STRUCTURES}/elastic/resize.rs",
        "if moved != home && arena.hashes_at(moved).is_some_and(is_its) {",
        "if moved != home && (arena.hashes_at(moved).is_some_and(is_its) || index & 7 == 3) {",
        structures("elastic"),
    ),
    Mutant(
        "range-tree-split-loses-order",
        f"{STRUCTURES}/ranges/range_table.rs",
        "parent.children.insert(place + 1, right_at);",
        "parent.children.insert(place, right_at);",
        structures("ranges"),
    ),
    Mutant(
        "range-tree-split-of-children",
        f"{STRUCTURES}/ranges/range_table.rs",
        "{ Vec::new() } else { node.children.split_off(FEWEST + 1) };",
        "{ Vec::new() } else { node.children.split_off(FEWEST) };",
        structures("ranges"),
    ),
    Mutant(
        "range-tree-join-drops-a-child",
        f"{STRUCTURES}/ranges/range_table.rs",
        "parent.children.remove(between + 1);",
        "parent.children.remove(between);",
        structures("ranges"),
    ),
    Mutant(
        "range-ends-one-page-late",
        f"{STRUCTURES}/ranges/node.rs",
        "self.base <= page && page < self.limit",
        "self.base <= page && page <= self.limit",
        structures("ranges"),
    ),
    Mutant(
        "range-split-keeps-the-first-frame",
        f"{STRUCTURES}/ranges/companion.rs",
        "let right = Range { base: end, frame: range.frame_of(end), ..range };",
        "let right = Range { base: end, frame: range.frame, ..range };",
        UNDER_KERNEL,
    ),
    Mutant(
        "range-dissolved-keeps-its-marks",
        f"{STRUCTURES}/ranges/companion.rs",
        "self.mark(entry.page, false, table, os);",
        "self.mark(entry.page, entry.flags.ranged, table, os);",
        units("rmm"),
    ),
    Mutant(
        "range-of-other-rights-is-joined",
        f"{STRUCTURES}/ranges/companion.rs",
        "(same_rights(&last, mapping.flags) && is_end()).then_some(last)",
        "is_end().then_some(last)",
        units("rmm"),
    ),
    # The MMU.
    Mutant(
        "guess-used-unverified",
        f"{MMU}/pipeline/walks.rs",
        """let walk = self.timed_walk::<W>(va, access, now, port);
        let cause = match walk.outcome {""",
        """let mut walk = self.timed_walk::<W>(va, access, now, port);
        if let (Some(guess), WalkOutcome::Mapped(found)) = (&guess, &mut walk.outcome)
            && guess.data_count > 0
        {
            found.frame = PhysAddr(guess.data[0].0 - (va.0 & (found.size.bytes() - 1))).pfn();
        }
        let cause = match walk.outcome {""",
        PIPELINE,
    ),
    Mutant(
        "memo-outlives-what-the-kernel-did",
        f"{MMU}/pipeline/invalidate.rs",
        """self.data.recent.forget();
        self.instructions.recent.forget();""",
        "",
        INVALIDATION,
    ),
    Mutant(
        "memo-outlives-an-invalidation",
        f"{MMU}/levels.rs",
        """self.recent.forget();
        self.small.invalidate(what, &[PageSize::SIZE_4K]);""",
        "self.small.invalidate(what, &[PageSize::SIZE_4K]);",
        INVALIDATION,
    ),
    Mutant(
        "memo-outlives-a-refill",
        f"{MMU}/levels.rs",
        """self.recent.remember(va, &kept, ready);
        self.small.fill_new(""",
        "self.small.fill_new(",
        "-p ambulator-mmu",
    ),
    Mutant(
        "memo-lets-stores-through-clean-pages",
        f"{MMU}/recent.rs",
        "(access == AccessKind::Load || slot.stores)",
        "(access == AccessKind::Load || slot.ready >= Cycle(0))",
        "-p ambulator-mmu",
    ),
    Mutant(
        "l1-data-tlb-not-invalidated",
        f"{MMU}/pipeline/invalidate.rs",
        """self.data.invalidate(what);
        self.instructions.invalidate(what);""",
        """self.data.recent.forget();
        self.instructions.invalidate(what);""",
        INVALIDATION,
    ),
    Mutant(
        "l1-instruction-tlb-not-invalidated",
        f"{MMU}/pipeline/invalidate.rs",
        "self.instructions.invalidate(what);",
        "self.instructions.recent.forget();",
        INVALIDATION,
    ),
    Mutant(
        "l2-tlb-not-invalidated",
        f"{MMU}/pipeline/invalidate.rs",
        "self.second.invalidate(what);",
        "",
        INVALIDATION,
    ),
    Mutant(
        "walker-not-told-of-invalidations",
        f"{MMU}/pipeline/invalidate.rs",
        """self.second.invalidate(what);
        self.walker.invalidate(what);""",
        "self.second.invalidate(what);",
        INVALIDATION,
    ),
    Mutant(
        "lookaside-not-told-of-invalidations",
        f"{MMU}/pipeline/invalidate.rs",
        "lookaside.invalidate(what);",
        "let _ = lookaside;",
        INVALIDATION,
    ),
    Mutant(
        "second-lookaside-not-told-of-invalidations",
        f"{MMU}/lookaside_pair.rs",
        "self.second.invalidate(what);",
        "",
        UNDER_KERNEL,
    ),
    Mutant(
        "nested-tlb-not-invalidated",
        f"{MMU}/nested.rs",
        "tlb.invalidate(what, &SIZES);",
        "let _ = tlb;",
        INVALIDATION,
    ),
    Mutant(
        "combined-entries-outlive-the-hypervisors",
        f"{MMU}/pipeline/invalidate.rs",
        "self.second.invalidate(Invalidation::All);",
        "",
        INVALIDATION,
    ),
    Mutant(
        "front-side-not-invalidated",
        f"{MMU}/intermediate.rs",
        "self.front.invalidate(before);",
        "",
        INVALIDATION,
    ),
    Mutant(
        "back-side-not-invalidated",
        f"{MMU}/intermediate.rs",
        "back.invalidate(behind, &[PageSize::SIZE_4K]);",
        "back.invalidate(before, &[PageSize::SIZE_4K]);",
        INVALIDATION,
    ),
    Mutant(
        "walker-behind-the-caches-not-invalidated",
        f"{MMU}/intermediate.rs",
        "self.invalidate_walker(all);",
        "self.invalidate_walker(what);",
        INVALIDATION,
    ),
    Mutant(
        "walkers-were-busy-before-a-walk-was-late",
        f"{MMU}/walkers.rs",
        "self.busy_from = self.all_started();",
        "",
        MMU_UNITS,
    ),
    Mutant(
        "late-walk-ends-as-was-said",
        f"{MMU}/walkers.rs",
        "later.latest_end = end;",
        "",
        MMU_UNITS,
    ),
    Mutant(
        "joined-walk-of-the-l1-tlb-ends-as-was-said",
        f"{MMU}/pipeline/walks.rs",
        "self.data.retime(self.asid, va, change);",
        "",
        PIPELINE,
    ),
    Mutant(
        "joined-walk-of-the-l2-tlb-ends-as-was-said",
        f"{MMU}/pipeline/walks.rs",
        "self.second.retime(self.asid, va, change);",
        "",
        PIPELINE,
    ),
    Mutant(
        "recent-translation-of-a-late-walk-is-there-as-was-said",
        f"{MMU}/levels.rs",
        "self.recent.retime(va, change);",
        "",
        PIPELINE,
    ),
    Mutant(
        "walks-ask-in-the-order-of-their-numbers",
        f"{MMU}/walkers.rs",
        """if asked.0 < self.asked {
            self.disordered = self.number;""",
        """if asked.0 < self.asked {
            self.disordered = self.disordered;""",
        MMU_UNITS,
    ),
    Mutant(
        "walk-waits-for-those-that-ask-with-it",
        f"{MMU}/walkers.rs",
        "((walk.asked == asked) & known_before)",
        "(walk.asked == asked)",
        MMU_UNITS,
    ),
    Mutant(
        "last-walks-keep-their-said-ends",
        f"{MMU}/walkers.rs",
        "self.end_last(among_last.unwrap_or(0), (start, end));",
        "",
        MMU_UNITS,
    ),
    Mutant(
        "tlb-of-any-process",
        f"{MMU}/tlb.rs",
        "number << 19 | u64::from(asid.0 & Asid::MAX.0) << 5 | u64::from(size.shift() & 31)",
        "number << 19 | u64::from(asid.0 & 0x2000) << 5 | u64::from(size.shift() & 31)",
        MMU_UNITS,
    ),
    Mutant(
        "tlb-fragment-of-the-first-frame",
        f"{MMU}/tlb.rs",
        "(va.0 & (translation.size.bytes() - 1)) >> size.shift() << size.order()",
        "(va.0 & (size.bytes() - 1)) >> size.shift() << size.order()",
        MMU_UNITS,
    ),
    Mutant(
        "tlb-drops-one-fragment-of-a-page",
        f"{MMU}/tlb.rs",
        "let fragments = page.size.bytes().max(size.bytes()) / size.bytes();",
        "let fragments = page.size.bytes().min(size.bytes()) / size.bytes().min(page.size.bytes());",
        MMU_UNITS,
    ),
    Mutant(
        "page-offset-of-large-pages",
        f"{MMU}/socket.rs",
        "self.frame.start().offset(va.0 & (self.size.bytes() - 1))",
        "self.frame.start().offset(va.0 & (self.size.bytes() - 1) & 0x1f_7fff)",
        "-p ambulator-mmu",
    ),
    Mutant(
        "stores-set-no-dirty-bit",
        f"{MMU}/pipeline/mod.rs",
        "if permits_at_once(&found, access) {",
        "if allowed(&found, access) {",
        "-p ambulator-mmu",
    ),
    Mutant(
        "l2-stores-set-no-dirty-bit",
        f"{MMU}/pipeline/mod.rs",
        """if !permits_at_once(&found, access) {
                return""",
        """if !allowed(&found, access) {
                return""",
        "-p ambulator-mmu",
    ),
    Mutant(
        "lookaside-gives-rights",
        f"{MMU}/pipeline/mod.rs",
        """if !permits_at_once(&found, access) {
                    return""",
        """if access == AccessKind::Store && !found.dirty {
                    return""",
        PIPELINE,
    ),
    Mutant(
        "nested-stores-set-no-dirty-bit",
        f"{MMU}/nested.rs",
        "if access != AccessKind::Store || (found.writable && found.dirty) {",
        "if access != AccessKind::Store || found.writable {",
        "-p ambulator-mmu",
    ),
    Mutant(
        "nested-page-begins-anywhere",
        f"{MMU}/nested.rs",
        "frame: PhysAddr(at.0 & !(size.bytes() - 1)).pfn(),",
        "frame: at.pfn(),",
        "-p ambulator-mmu",
    ),
    Mutant(
        "nested-page-of-the-guests-size",
        f"{MMU}/nested.rs",
        "let size = tlb_page_size(first_stage.size).min(second_stage.size);",
        "let size = tlb_page_size(first_stage.size);",
        "-p ambulator-mmu",
    ),
    # The kernel.
    Mutant(
        "fork-leaves-the-parent-writing",
        f"{OS}/fork.rs",
        "if entry.flags.writable {",
        "if entry.flags.writable && !entry.flags.user {",
        OS_SPACES,
    ),
    Mutant(
        "fork-lets-the-child-write",
        f"{OS}/fork.rs",
        "PteFlags { accessed: false, ..flags }",
        "PteFlags { accessed: false, ..entry.flags }",
        OS_SPACES,
    ),
    Mutant(
        "copy-on-write-writes-the-shared-page",
        f"{OS}/fault.rs",
        "if !self.owners.is_shared(state.frame(), page.size) {",
        "if !self.owners.is_shared(state.frame(), page.size) || page.size == PageSize::SIZE_4K {",
        OS_SPACES,
    ),
    Mutant(
        "mprotect-lets-shared-pages-be-written",
        f"{OS}/calls.rs",
        "writable: protection.write && !state.copy_on_write(),",
        "writable: protection.write,",
        OS_SPACES,
    ),
    Mutant(
        "unmapped-page-is-not-shot-down",
        f"{OS}/pages.rs",
        """self.entry_changed(process, page);
        Ok(entry)""",
        """self.hold_lock(process, page);
        Ok(entry)""",
        OS_SPACES,
    ),
    Mutant(
        "protected-page-is-not-shot-down",
        f"{OS}/pages.rs",
        """self.entry_changed(process, page);
        Ok(())""",
        """self.hold_lock(process, page);
        Ok(())""",
        OS_SPACES,
    ),
    Mutant(
        "one-page-flushed-stands-for-all",
        f"{OS}/shootdown.rs",
        "last.asid == asid && last.page.is_none()",
        "last.asid == asid",
        OS_SPACES,
    ),
    Mutant(
        "identifiers-are-never-taken-back",
        f"{OS}/identifiers.rs",
        "if given.len() >= self.most { given.pop_front() } else { None }",
        "None",
        OS_SPACES,
    ),
    Mutant(
        "identifier-taken-back-flushes-nothing",
        f"{SIMULATOR}/os_events.rs",
        "core.mmu.recycle(lost);",
        "let _ = lost;",
        ADDRESS_SPACES,
    ),
    Mutant(
        "identifier-taken-back-empties-what-cores-share",
        f"{MMU}/pipeline/invalidate.rs",
        "lookaside.recycle(asid);",
        "lookaside.invalidate(Invalidation::Asid(asid));",
        ADDRESS_SPACES,
    ),
    Mutant(
        "hypervisor-leaves-combined-translations-in-the-lookaside",
        f"{MMU}/pipeline/invalidate.rs",
        "lookaside.invalidate(Invalidation::All);",
        "let _ = lookaside;",
        INVALIDATION,
    ),
    Mutant(
        "exit-leaves-its-entries",
        f"{OS}/lifecycle.rs",
        "self.shootdowns.push_space(asid);",
        "",
        OS_RECLAIM,
    ),
    Mutant(
        "reclaim-takes-shared-pages",
        f"{OS}/reclaim.rs",
        "if self.owners.is_shared(entry.frame, page.size) ||",
        "if (self.owners.is_shared(entry.frame, page.size) && page.size > PageSize::SIZE_4K) ||",
        OS_RECLAIM,
    ),
    Mutant(
        "reclaim-drops-what-was-written-again",
        f"{OS}/reclaim.rs",
        "let droppable = state.lazily_free() && !entry.flags.dirty;",
        "let droppable = state.lazily_free();",
        OS_RECLAIM,
    ),
    Mutant(
        "split-keeps-the-first-frame",
        f"{OS}/pages.rs",
        "frame: entry.frame.offset(i * smaller.frames()),",
        "frame: entry.frame.offset(i / 2 * 2 * smaller.frames()),",
        OS_SPACES,
    ),
    Mutant(
        "remap-keeps-huge-pages-out-of-place",
        f"{OS}/calls.rs",
        "if distance.is_multiple_of(page.size.bytes()) {",
        "if distance.is_multiple_of(4096) {",
        OS_SPACES,
    ),
    Mutant(
        "migration-keeps-the-frames-it-left",
        f"{OS}/migrate.rs",
        """self.release_frames(entry.frame, page.size);
        let asid""",
        "let asid",
        units("utopia"),
    ),
    Mutant(
        "migration-moves-shared-pages",
        f"{OS}/migrate.rs",
        """&& !self.owners.is_shared(state.frame(), page.size)
    }""",
        "}",
        units("utopia"),
    ),
    Mutant(
        "broken-reservation-frees-used-frames",
        f"{OS}/huge.rs",
        "if !(state.present() && state.frame() == frame) {",
        "if !(state.present() && state.frame() == frame && i != 1) {",
        OS_SPACES,
    ),
    Mutant(
        "area-without-pages-is-not-shot-down",
        f"{OS}/shootdown.rs",
        "if !self.pending.iter().any(covers) {",
        "if !self.pending.iter().any(covers) && len == 0 {",
        "-p ambulator-simulator --test machines what_hardware_holds",
    ),
    # Memory controllers.
    Mutant(
        "writes-that-come-late-begin-no-batch",
        f"{HARDWARE}/channel/writes.rs",
        "if self.writes.len() > self.quiet || self.plan.released() > enters {",
        "if self.plan.released() > enters {",
        CHANNEL,
    ),
    Mutant(
        "batches-are-not-put-off-by-late-reads",
        f"{HARDWARE}/plan.rs",
        "if self.released >= arrival {",
        "if self.released > arrival + (1 << 40) {",
        CHANNEL,
    ),
    Mutant(
        "rows-that-a-late-read-opens-first-stay-behind",
        f"{HARDWARE}/plan.rs",
        "if (if hits { ready } else { opened }) < since {",
        "if hits && ready < since {",
        CHANNEL,
    ),
    Mutant(
        "a-read-that-is-sent-later-arrives-as-was-said",
        f"{HARDWARE}/channel.rs",
        "(request.arrival, request.sent) = (arrival, self.next_number());",
        "request.sent = self.next_number();",
        CHANNEL,
    ),
    Mutant(
        "evicted-lines-have-lines-read-that-are-not-sent",
        f"{HARDWARE}/hierarchy/levels.rs",
        "if by.is_table && now < u64::MAX && self.dram.is_ahead(place) {",
        "if by.is_table && now < 1 && self.dram.is_ahead(place) {",
        "-p ambulator-hardware --test integration a_line_that_is_asked_for_ahead",
    ),
    # Walkers.
    Mutant(
        "walks-that-wait-begin-as-was-said",
        f"{MMU}/walkers.rs",
        """if start > now.0 {
                return Begin::At(""",
        """if start < now.0 {
                return Begin::At(""",
        MMU_UNITS,
    ),
    Mutant(
        "walks-wait-in-the-order-of-their-numbers",
        f"{MMU}/walkers.rs",
        "self.queue.insert(self.queue.len() - later, waiting);",
        "self.queue.push_back(waiting);",
        MMU_UNITS,
    ),
    Mutant(
        "prefetch-walks-take-no-walker-from-those-behind",
        f"{MMU}/walkers.rs",
        "self.begin_behind(number, least);",
        "",
        MMU_UNITS,
    ),
    Mutant(
        "entries-of-waiting-walks-are-usable",
        f"{MMU}/tlb.rs",
        "Retime::Wait(told) if usable == told => Cycle(told.0 | WAITS),",
        "",
        PIPELINE,
    ),
    Mutant(
        "entries-of-waiting-walks-are-usable-in-the-l1-tlb",
        f"{MMU}/pipeline/mod.rs",
        "self.data.retime(self.asid, va, Retime::Wait(ready));",
        "",
        PIPELINE,
    ),
    Mutant(
        "who-has-joined-a-waiting-walk-asks-as-was-said",
        f"{SIMULATOR}/awaited.rs",
        """self.join_waiting(event.place, va, told);
                return true;""",
        "return false;",
        "-p ambulator-simulator --test machines accesses_that_join",
    ),
    Mutant(
        "a-cuckoo-walk-waits-for-all-ways",
        f"{DESIGNS}/ecpt/walker.rs",
        "        port.decide(&[(at, ready)]);\n",
        "",
        "-p ambulator-simulator --test machines walks_that_probe_all_ways",
    ),
    Mutant(
        "a-translation-waits-for-one-of-its-lines",
        f"{SIMULATOR}/awaited.rs",
        "if walk.others {",
        "if false {",
        "-p ambulator-simulator --test machines what_a_tlb_in_main_memory",
    ),
    Mutant(
        "walks-do-not-wait-for-lines-on-their-way",
        f"{MMU}/core_port.rs",
        "} else if self.hierarchy.awaits_memory(sent, ready) {",
        "} else if access.served == Served::Dram {",
        "-p ambulator-simulator --test machines walks_wait_for_table_lines",
    ),
    Mutant(
        "what-is-sent-late-goes-before-others-of-its-clock",
        f"{HARDWARE}/channel.rs",
        "(request.arrival, request.sent) = (arrival, self.next_number());",
        "request.arrival = arrival;",
        "-p ambulator-simulator --test machines walks_wait_for_table_lines",
    ),
    Mutant(
        "a-lookaside-is-never-late",
        f"{SIMULATOR}/awaited.rs",
        "None if *settled && !lines.is_empty() =>",
        "None if false =>",
        "-p ambulator-simulator --test machines what_a_tlb_in_main_memory",
    ),
    Mutant(
        "a-walk-that-begins-late-waits-anew-for-its-predicted-line",
        f"{MMU}/core_port.rs",
        "let ready = if own { access.ready } else { there };",
        "let ready = access.ready;",
        "-p ambulator-simulator --test machines walks_that_wait_for_walkers_find_predicted_lines",
    ),
    Mutant(
        "a-predicted-line-is-there-when-it-was-said",
        f"{MMU}/core_port.rs",
        "if arrives <= self.awaited.asked {",
        "if arrives <= sent.after(latency) {",
        "-p ambulator-simulator --test machines walks_that_wait_for_walkers_find_predicted_lines",
    ),
    Mutant(
        "a-learned-walk-does-not-wait-for-its-models",
        f"{DESIGNS}/lvm/walker.rs",
        "        (node, line.ready, 1)\n",
        "        (node, looked, 1)\n",
        "-p ambulator-simulator --test machines walks_of_a_learned_index",
    ),
    Mutant(
        "a-range-is-there-when-its-walk-begins",
        f"{DESIGNS}/rmm/range_tlb.rs",
        "            ready = first.ready.max(second.ready);\n",
        "            ready = now;\n",
        "-p ambulator-simulator --test machines a_range_is_known_when",
    ),
    Mutant(
        "a-page-behind-the-caches-is-known-when-its-walk-was-said-to-end",
        f"{SIMULATOR}/behind.rs",
        "        if late > 0 {\n            hierarchy.expect",
        "        if false {\n            hierarchy.expect",
        "-p ambulator-simulator --test machines misses_of_all_caches",
    ),
    Mutant(
        "a-line-whose-page-is-not-known-holds-no-mshr",
        f"{HARDWARE}/hierarchy/behind.rs",
        "self.hold(core, line, said, until.max(now.0 + ASKS_AGAIN));",
        "self.hold(core, line, said, 0);",
        "-p ambulator-simulator --test machines a_line_whose_page",
    ),
    Mutant(
        "a-walk-behind-the-caches-begins-at-once",
        f"{SIMULATOR}/behind.rs",
        "if self.hw.cores[number].mmu.holds_behind(at) {",
        "if missed.0 > 0 || self.hw.cores[number].mmu.holds_behind(at) {",
        "-p ambulator-simulator --test machines misses_of_all_caches",
    ),
    Mutant(
        "a-walk-after-a-search-in-vain-asks-when-that-was-said-to-end",
        f"{SIMULATOR}/waiting_walks.rs",
        "self.mmu.ask_for_walker(arrives);",
        "let _ = arrives;",
        "-p ambulator-simulator --test machines walks_begin_when_rest_segs",
    ),
    Mutant(
        "a-walk-that-asks-later-keeps-its-place-in-the-queue",
        f"{MMU}/walkers.rs",
        "self.queue.insert(before, WaitingWalk {",
        "self.queue.insert(0, WaitingWalk {",
        MMU_UNITS,
    ),
    # The oracle.
    Mutant(
        "oracle-not-asked-about-recalled-pages",
        f"{SIMULATOR}/path/conventional.rs",
        """if self.accepts(number, va, at, access) {
                return""",
        """if ready >= now {
                return""",
        ORACLE,
    ),
    Mutant(
        "oracle-keeps-answers-that-changed",
        f"{SIMULATOR}/oracle.rs",
        "if known.vpn != vpn || known.changes != changes || known.process != process {",
        "if known.vpn != vpn || known.process != process {",
        ORACLE,
    ),
    Mutant(
        "page-map-does-not-count-changes",
        f"{OS}/page_state.rs",
        """self.changes += 1;
        let region = self.region_mut(vpn.0 >> REGION_BITS);
        region.change""",
        """let region = self.region_mut(vpn.0 >> REGION_BITS);
        region.change""",
        ORACLE,
    ),
]
