//! The bounds of a comparison: for each paging policy among its designs, a machine with a perfect TLB.

use crate::{Bound, Candidate, Verdict};
use ambulator_simulator::{Job, RunResult};

/// What the name of a bound begins with, before that of the design.
pub const BOUND: &str = "bound of ";

/// Which job bounds each design.
#[derive(Debug)]
pub struct Bounds {
    /// By design: the number of its bound among the designs and, after them, the additional jobs.
    of: Vec<Option<usize>>,
    /// By design: it cannot be built.
    idealised: Vec<bool>,
    designs: usize,
}

impl Bounds {
    /// The bounds of `jobs`, and the jobs that are needed for them in addition. A design that is a bound of
    /// others itself is not run twice.
    pub fn of(jobs: &[Job]) -> (Bounds, Vec<Job>) {
        let (mut of, mut more) = (Vec::new(), Vec::<Job>::new());
        let as_bounds: Vec<_> = jobs.iter().map(|job| job.spec.bound()).collect();
        for (number, bound) in as_bounds.iter().enumerate() {
            let Some(bound) = bound else {
                of.push(None);
                continue;
            };
            let is_it = |(job, as_bound): (&Job, &Option<_>)| {
                let table = &job.spec.design.page_table;
                job.spec.mmu.perfect && as_bound.as_ref() == Some(bound) && *table == bound.design.page_table
            };
            let known = jobs.iter().zip(&as_bounds).position(is_it);
            let known = known.or_else(|| Some(jobs.len() + more.iter().position(|job| job.spec == *bound)?));
            of.push(Some(known.unwrap_or_else(|| {
                more.push(Job { design: format!("{BOUND}{}", jobs[number].design), spec: bound.clone() });
                jobs.len() + more.len() - 1
            })));
        }
        let idealised = jobs.iter().map(|job| job.spec.is_idealised()).collect();
        (Bounds { of, idealised, designs: jobs.len() }, more)
    }

    /// No bounds: the verdict does without.
    pub fn none(jobs: &[Job]) -> Bounds {
        let idealised = jobs.iter().map(|job| job.spec.is_idealised()).collect();
        Bounds { of: vec![None; jobs.len()], idealised, designs: jobs.len() }
    }

    /// The verdict on the designs' runs; `more` are the runs of the additional jobs.
    pub fn verdict(&self, runs: &[RunResult], more: &[RunResult]) -> Verdict {
        let all: Vec<&RunResult> = runs.iter().chain(more).collect();
        let with_bounds = runs.iter().zip(&self.of).zip(&self.idealised);
        let candidates: Vec<Candidate<'_>> = with_bounds
            .map(|((run, of), idealised)| Candidate {
                run,
                bound: of.and_then(|of| all.get(of).copied()),
                idealised: *idealised,
            })
            .collect();
        Verdict::of(&candidates)
    }

    /// The runs of the additional jobs, with the designs that each bounds.
    pub fn document(&self, runs: &[RunResult], more: Vec<RunResult>) -> Vec<Bound> {
        let bounded = |number: usize| {
            let of = self.of.iter().zip(runs).filter(|(of, _)| **of == Some(self.designs + number));
            of.map(|(_, run)| run.design.clone()).collect()
        };
        more.into_iter().enumerate().map(|(number, run)| Bound { of: bounded(number), run }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::spec::{SpecRequest, load};

    #[test]
    fn one_bound_for_each_policy_and_none_twice() {
        let job = |design: &str| {
            let request = SpecRequest { design: Some(design.into()), ..SpecRequest::default() };
            Job { design: design.into(), spec: load(&request).unwrap().spec }
        };
        let jobs: Vec<Job> = ["radix", "thp", "ideal", "perfect-tlb", "lvm-thp", "rmm"].map(job).into();
        let (bounds, more) = Bounds::of(&jobs);
        let names: Vec<&str> = more.iter().map(|job| job.design.as_str()).collect();
        assert_eq!(names, ["bound of thp", "bound of rmm"]);
        assert_eq!(bounds.of, [Some(3), Some(6), Some(3), Some(3), Some(6), Some(7)]);
        assert_eq!(bounds.idealised, [false, false, true, true, false, false]);
        let run = |job: &Job| RunResult { design: job.design.clone(), ..RunResult::default() };
        let runs: Vec<RunResult> = jobs.iter().map(run).collect();
        let document = bounds.document(&runs, more.iter().map(run).collect());
        assert_eq!(document[0].of, ["thp", "lvm-thp"]);
        assert_eq!(document[1].of, ["rmm"]);
    }
}
