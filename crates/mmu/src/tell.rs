//! What the pipeline tells a watch of its steps. Runs that nobody watches do not come here.

use crate::{LookasideAnswer, Speculation};
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};

/// The L1 TLB of an access, in words.
pub(crate) fn first_name(access: AccessKind) -> &'static str {
    if access == AccessKind::Fetch { "L1 instruction TLB" } else { "L1 data TLB" }
}

/// An entry whose walk has not ended yet was hit.
pub(crate) fn tell_join(answered: Cycle, ready: Cycle) {
    if ready > answered {
        watch::step(|| Step::new(StepKind::Wait, "walk in flight", answered, ready).says("the miss joins it"));
    }
}

/// An entry that does not permit the access yet.
#[cold]
pub(crate) fn tell_rights(allowed: bool, now: Cycle) {
    let says = match allowed {
        true => "the entry is clean: a store must set the dirty bit of the page first",
        false => "the entry forbids the access: a fault",
    };
    watch::step(|| Step::new(StepKind::LookUp, "rights", now, now).says(says));
}

/// The answer of the lookaside, whose step ends.
#[cold]
pub(crate) fn tell_answer(answer: &LookasideAnswer, va: VirtAddr) {
    watch::close(|step| {
        step.until = answer.ready.0.max(step.from);
        step.hit = Some(answer.found.is_some());
        // Where a walk begins without it, nobody waits for a miss.
        step.behind = answer.found.is_none() && !answer.holds_walk;
        step.says = match answer.found {
            Some(found) => format!("has the page: physical address {}", found.physical(va)),
            None if answer.holds_walk => "does not have the page; a walk may begin now".into(),
            None => "does not have the page".into(),
        };
    });
}

/// The data's line, where a speculator always knows it from the miss on.
#[cold]
pub(crate) fn tell_known_line(at: PhysAddr, now: Cycle, arrives: Cycle) {
    watch::step(|| {
        let step = Step::new(StepKind::Fetch, "data line, known from the miss on", now, arrives);
        Step { hit: Some(true), ..step.address("at", at.0).behind() }
    });
}

/// A load computed with a prediction; the walk has verified it at `verified`.
#[cold]
pub(crate) fn tell_computed(right: bool, ready: Cycle, verified: Cycle) {
    if right {
        watch::amend(|steps| {
            for step in steps.iter_mut().filter(|step| step.until > ready.0) {
                step.behind = true;
            }
        });
        watch::step(|| {
            let says = "the prediction is right: the load has asked for its data; it commits no earlier";
            Step::new(StepKind::Wait, "verification", ready, verified).says(says).behind()
        });
    } else {
        watch::step(|| {
            let says = "the prediction is wrong: what was dispatched after the load is flushed";
            Step::new(StepKind::Wait, "pipeline flush", verified, ready).says(says)
        });
    }
}

/// A page that the operating system should move.
#[cold]
pub(crate) fn tell_hint(hint: Option<VirtAddr>, now: Cycle) {
    if hint.is_some() {
        let says = "the operating system should move the page to where it is translated faster";
        watch::step(|| Step::new(StepKind::Fill, "migration hint", now, now).says(says).behind());
    }
}

/// The lines that speculation fetches.
#[cold]
pub(crate) fn tell_guess(guess: &Speculation, issue: Cycle) {
    let table = guess.table[..usize::from(guess.table_count)].iter().map(|at| (at, "guessed line of a table"));
    let data = guess.data[..usize::from(guess.data_count)].iter().map(|at| (at, "guessed line of the data"));
    for (at, name) in table.chain(data) {
        watch::step(|| Step::new(StepKind::Fetch, name, issue, issue).address("at", at.0).behind());
    }
}

/// Which guesses were right, now that the data is known to be at `at`.
#[cold]
pub(crate) fn tell_verdict(at: PhysAddr) {
    fn read(steps: &[Step], line: u64) -> bool {
        steps.iter().any(|step| {
            step.loaded.as_ref().is_some_and(|loaded| PhysAddr(loaded.at).line() == line) || read(&step.steps, line)
        })
    }
    watch::amend(|steps| {
        for guess in 0..steps.len() {
            let of_table = steps[guess].name == "guessed line of a table";
            if !of_table && steps[guess].name != "guessed line of the data" {
                continue;
            }
            let text = steps[guess].fields.first().and_then(|field| field.value.as_str()).unwrap_or_default();
            let line = u64::from_str_radix(text.trim_start_matches("0x"), 16).map_or(0, |at| PhysAddr(at).line());
            let right = if of_table { read(steps, line) } else { line == at.line() };
            steps[guess].hit = Some(right);
            steps[guess].says = match (right, of_table) {
                (true, true) => "right: the walk loads this line",
                (true, false) => "right: the data is in this line",
                (false, true) => "wrong: the walk does not load this line",
                (false, false) => "wrong: the data is elsewhere",
            }
            .to_owned();
        }
    });
}
