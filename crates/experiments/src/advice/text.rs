//! The page of advice in words.

use super::{Advice, CodeShare, Judged, Judgement, Limit, LimitKind, Place, RemedyKind};
use crate::number::{bytes, count};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// The most remedies of a table.
const MOST_REMEDIES: usize = 12;
/// A part of the cycles from which on a sentence names it.
const NAMED_PART: f64 = 0.05;
/// Parts of the cycles that wait for translation.
const TRANSLATION: [&str; 2] = ["page walks", "look-ups of TLBs"];
/// Speed-ups that are printed as one.
const SAME: f64 = 0.0005;
/// A share of walk cycles outside aligned 2 MiB from which on alignment is worth a sentence.
const MISALIGNED: f64 = 0.05;

/// A piece of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A heading.
    Heading(String),
    /// A sentence or more.
    Sentence(String),
    /// A table.
    Table(String),
}

impl LimitKind {
    /// The limit in words.
    pub fn words(self) -> &'static str {
        match self {
            LimitKind::TlbReach => "translation, by the reach of the TLBs",
            LimitKind::WalkLatency => "translation, by the latency of page walks",
            LimitKind::Faults => "page faults",
            LimitKind::Bandwidth => "the bandwidth of main memory",
            LimitKind::DataLatency => "the latency of data",
            LimitKind::Branches => "mispredicted branches",
            LimitKind::InstructionFetch => "instruction fetch",
        }
    }

    /// Whether it is translation.
    pub fn is_translation(self) -> bool {
        matches!(self, LimitKind::TlbReach | LimitKind::WalkLatency)
    }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

fn in_words(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| "no interval".into(), |(low, high)| format!("95% interval {low:.3} to {high:.3}"))
}

fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn table(head: &[&str], rows: Vec<Vec<String>>, left: usize, width: Option<usize>) -> Piece {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    let cell = |at: usize, text: &str| {
        let cell = Cell::new(text);
        if at < left { cell } else { cell.set_alignment(CellAlignment::Right) }
    };
    table.set_header(head.iter().enumerate().map(|(at, text)| cell(at, text)));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(at, text)| cell(at, text)));
    }
    if let Some(width) = width.filter(|width| table.lines().any(|line| line.chars().count() > *width)) {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    Piece::Table(table.to_string())
}

impl Place {
    /// `function (file.c:12)`, as far as it is known.
    fn words(&self) -> String {
        let file = self.source.rsplit('/').next().unwrap_or_default();
        let line = if self.line > 0 { format!("{file}:{}", self.line) } else { file.to_owned() };
        match (self.function.is_empty(), line.is_empty()) {
            (false, false) => format!("{} ({line})", self.function),
            (false, true) => self.function.clone(),
            _ => line,
        }
    }
}

impl CodeShare {
    fn words(&self) -> String {
        let Some(pc) = self.pc else { return "all other code".into() };
        match &self.place {
            Some(place) => place.words(),
            None if self.file.is_empty() => format!("instruction at {pc:#x}"),
            None => format!("{}+{:#x}", self.file, self.file_offset),
        }
    }
}

impl Advice {
    /// The page; tables have at most `width` columns.
    pub fn page(&self, width: Option<usize>) -> Vec<Piece> {
        let mut page = vec![Piece::Heading(format!("What limits {}", self.program))];
        let mut say = |text: String| page.push(Piece::Sentence(text));
        say(self.translation());
        for limit in self.limits.iter().filter(|limit| limit.kind.is_translation()) {
            say(limit.because.clone());
            let waits: f64 =
                self.cycles.iter().filter(|part| TRANSLATION.contains(&part.part)).map(|part| part.share).sum();
            if 2.0 * waits < limit.share {
                say(format!(
                    "Most of this overlaps with waits for data: only {} of the cycles below wait for translation alone.",
                    percent(waits)
                ));
            }
        }
        say(self.other_limits());
        say(self.where_cycles_go());
        page.push(Piece::Heading("What causes it".into()));
        page.extend(self.causes(width));
        page.push(Piece::Heading("What helps, and what does not".into()));
        page.extend(self.help(width));
        if !self.doubts.is_empty() {
            page.push(Piece::Heading("What this cannot tell".into()));
            page.extend(self.doubts.iter().map(|doubt| Piece::Sentence(doubt.clone())));
        }
        page
    }

    fn translation(&self) -> String {
        let limit = self.limits.iter().find(|limit| limit.kind.is_translation());
        let Some(headroom) = &self.headroom else {
            return match limit {
                Some(limit) => format!("{} of the cycles wait for translation.", percent(limit.share)),
                None => "Hardly any cycles wait for translation.".into(),
            };
        };
        let perfect = format!(
            "with TLBs that never miss and the same pages it is {:.3} times as fast ({})",
            headroom.speed_up,
            in_words(headroom.interval)
        );
        match limit {
            Some(limit) => format!(
                "It is limited by {}, which takes at most {} of its time: {perfect}.",
                limit.kind.words(),
                percent(limit.share)
            ),
            None if headroom.differs && headroom.speed_up > 1.0 => format!(
                "Translation costs it little, at most {} of its time: {perfect}.",
                percent(1.0 - 1.0 / headroom.speed_up)
            ),
            None => format!("It has no problem with translation: {perfect}."),
        }
    }

    fn other_limits(&self) -> String {
        let others: Vec<&Limit> = self.limits.iter().filter(|limit| !limit.kind.is_translation()).collect();
        if others.is_empty() {
            return match self.limits.is_empty() {
                true => "Nothing limits it for a tenth of its time or more, except the instructions themselves.".into(),
                false => "Nothing else takes a tenth of its time.".into(),
            };
        }
        let also = if others.len() < self.limits.len() { "It is also limited by" } else { "It is limited by" };
        let words: Vec<String> = others
            .iter()
            .map(|limit| format!("{} ({} of its cycles)", limit.kind.words(), percent(limit.share)))
            .collect();
        let because: Vec<&str> = others.iter().map(|limit| limit.because.as_str()).collect();
        format!("{also} {}. {}", list(&words), because.join(" "))
    }

    fn where_cycles_go(&self) -> String {
        let named = self.cycles.iter().filter(|part| part.share >= NAMED_PART);
        let parts: Vec<String> = named.map(|part| format!("{} {}", percent(part.share), part.part)).collect();
        format!("An instruction takes {:.2} cycles: {}.", self.cpi, list(&parts))
    }

    fn causes(&self, width: Option<usize>) -> Vec<Piece> {
        if self.total.walks == 0 && self.total.page_faults == 0 && self.total.l2_tlb_misses == 0 {
            return vec![Piece::Sentence("There are no L2 TLB misses, page walks or page faults to blame.".into())];
        }
        let total = format!(
            "{} L2 TLB misses, {} page walks of {} cycles, {} page faults of {} cycles in {} instructions{}.",
            count(self.total.l2_tlb_misses as f64),
            count(self.total.walks as f64),
            count(self.total.walk_cycles as f64),
            count(self.total.page_faults as f64),
            count(self.total.fault_cycles as f64),
            count(self.instructions as f64),
            if self.seeds > 1 { ", with the first seed" } else { "" }
        );
        let faults = self.total.fault_cycles > 0;
        let shares = |shares: &super::Shares| {
            let mut cells = vec![percent(shares.l2_tlb_misses), percent(shares.walk_cycles)];
            if faults {
                cells.push(percent(shares.fault_cycles));
            }
            cells
        };
        let heads = |first: &[&'static str]| {
            let mut heads = first.to_vec();
            heads.extend(["L2 TLB misses", "walk cycles"]);
            if faults {
                heads.push("fault cycles");
            }
            heads
        };
        let structures = self.structures.iter().map(|of| {
            let size = if of.bytes > 0 { bytes(of.bytes as f64) } else { String::new() };
            [vec![of.name.clone(), size], shares(&of.shares)].concat()
        });
        let code = self.code.iter().map(|of| [vec![of.words(), of.structure.clone()], shares(&of.shares)].concat());
        vec![
            Piece::Sentence(total),
            table(&heads(&["data", "size"]), structures.collect(), 1, width),
            table(&heads(&["code", "on"]), code.collect(), 2, width),
        ]
    }

    fn help(&self, width: Option<usize>) -> Vec<Piece> {
        let rows = self.remedies.iter().take(MOST_REMEDIES).map(|of| {
            let known = of.judgement != Judgement::Unknown;
            let interval = of.interval.map_or_else(|| "-".into(), |(low, high)| format!("{low:.3} to {high:.3}"));
            let kind = if of.kind == RemedyKind::KernelSetting { "kernel" } else { "hardware" };
            let number = |text: String| if known { text } else { "-".into() };
            vec![
                of.label.clone(),
                kind.to_owned(),
                judged(of.judgement).to_owned(),
                number(format!("{:.3}x", of.speed_up)),
                interval,
                number(format!("{:.1}", of.l2_tlb_misses)),
                number(format!("{:.3}", of.translation_cycles)),
                number(format!("{:.3}", of.os_cycles)),
            ]
        });
        let heads = ["change", "of", "", "speed-up", "95% interval", "L2 TLB MPKI", "TLB+walk CPI", "OS CPI"];
        let mut pieces = vec![table(&heads, rows.collect(), 3, width)];
        let mut say = |text: String| pieces.push(Piece::Sentence(text));
        say(self.best(RemedyKind::KernelSetting));
        if self.outside_2m >= MISALIGNED {
            say(format!(
                "Alignment: {} of the walk cycles are in memory outside of whole aligned 2 MiB, where transparent huge pages \
                 do not reach (estimated from the mappings' addresses and sizes). Larger and 2 MiB-aligned allocations \
                 would let them.",
                percent(self.outside_2m)
            ));
        }
        if self.in_files >= MISALIGNED {
            say(format!(
                "{} of the walk cycles are in mapped files, for which no setting of the kernel here makes huge pages.",
                percent(self.in_files)
            ));
        }
        say(self.best(RemedyKind::Design));
        let without: Vec<String> = self.judged_as(Judgement::NoDifference).map(|of| of.label.clone()).collect();
        if !without.is_empty() {
            say(format!("No difference beyond the interval: {}.", list(&without)));
        }
        let slower: Vec<String> =
            self.judged_as(Judgement::Slower).map(|of| format!("{} ({:.3}x)", of.label, of.speed_up)).collect();
        if !slower.is_empty() {
            say(format!("Slower: {}.", list(&slower)));
        }
        for unknown in self.judged_as(Judgement::Unknown) {
            let why = unknown.outcome.as_deref().unwrap_or("it did not complete");
            say(format!("{} could not be judged: {why}.", unknown.label));
        }
        pieces
    }

    fn judged_as(&self, judgement: Judgement) -> impl Iterator<Item = &Judged> {
        self.remedies.iter().filter(move |of| of.judgement == judgement)
    }

    /// The best remedy of a kind.
    fn best(&self, kind: RemedyKind) -> String {
        let (of, none) = match kind {
            RemedyKind::KernelSetting => ("Of today's kernel, ", "No setting of today's kernel helps."),
            RemedyKind::Design => ("In hardware, ", "None of the designs in hardware helps."),
        };
        let helps: Vec<&Judged> = self.judged_as(Judgement::Helps).filter(|one| one.kind == kind).collect();
        let most = helps.iter().map(|one| one.speed_up).fold(0.0, f64::max);
        // Of equals, the first: the least to change.
        let Some(best) = helps.iter().find(|one| one.speed_up + SAME >= most) else {
            let tried = self.remedies.iter().any(|one| one.kind == kind);
            return if tried { none.into() } else { format!("{of}nothing was tried.") };
        };
        let mut text =
            format!("{of}{} helps most: {:.3} times as fast ({}).", best.label, best.speed_up, in_words(best.interval));
        if !best.how.is_empty() {
            text += &format!(" {}", best.how);
        }
        let equals = helps.iter().filter(|one| one.label != best.label && one.speed_up + SAME >= best.speed_up);
        let equals: Vec<String> = equals.map(|one| one.label.clone()).collect();
        if !equals.is_empty() {
            text += &format!(" Just as good: {}.", list(&equals));
        }
        text
    }
}

fn judged(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Helps => "helps",
        Judgement::NoDifference => "no difference",
        Judgement::Slower => "slower",
        Judgement::Unknown => "unknown",
    }
}
