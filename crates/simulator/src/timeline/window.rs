//! The window of a run: when recording begins and ends.

use super::recording::Recording;
use super::{RecordedWindow, TimelinePart, WindowEnd};
use crate::error::Stop;
use crate::machine::{Machine, Phase};
use ambulator_base::watch;

/// Records between two looks at what a machine that is recorded has done.
const SLICE: usize = 64;

/// The timeline of a machine that is to be recorded.
pub(crate) struct TimelineRun {
    part: TimelinePart,
    design: String,
    /// The window has begun.
    begun: bool,
}

impl TimelineRun {
    /// Whether the window begins after this many instructions of a phase.
    pub fn is_due(&self, phase: Phase, instructions: u64) -> bool {
        !self.begun && phase == Phase::Measure && instructions >= self.part.timeline.request.from
    }
}

impl Machine {
    /// Records a window of the run that begins, under the design's name.
    pub fn record_timeline(&mut self, part: TimelinePart, design: &str) {
        self.timeline = Some(Box::new(TimelineRun { part, design: design.to_owned(), begun: false }));
    }

    /// As [`Machine::advance`], with a timeline.
    #[cold]
    pub(crate) fn advance_recorded(&mut self, records: usize) -> Result<bool, Stop> {
        let mut left = records;
        while left > 0 {
            let (phase, instructions) = (self.phase(), self.hw.instructions());
            let mut slice = left;
            if let Some(run) = &mut self.timeline {
                if run.is_due(phase, instructions) {
                    run.begun = true;
                    let request = run.part.timeline.request;
                    let recording = Recording::begin(&self.hw, &self.os, run.part.clone(), &run.design, request);
                    self.hw.recording = Some(Box::new(recording));
                    self.hw.hierarchy.keep_dram_log(true);
                } else if !run.begun && phase == Phase::Measure {
                    // A record has several instructions.
                    let before = run.part.timeline.request.from - instructions;
                    slice = left.min((before / SLICE as u64) as usize).max(SLICE);
                }
            }
            let goes_on = if self.hw.recording.is_some() {
                slice = left.min(SLICE);
                let watching = watch::start();
                let ran = self.run(slice);
                drop(watching);
                let end = match &ran {
                    Ok(true) => self.take_recorded(),
                    _ => Some(WindowEnd::RunEnded),
                };
                if let Some(end) = end {
                    self.end_recording(end);
                }
                ran?
            } else {
                self.run(slice)?
            };
            if !goes_on {
                return Ok(false);
            }
            left = left.saturating_sub(slice);
        }
        Ok(true)
    }

    /// Puts what has happened in the last slice onto tracks; says why the window has ended, if it has.
    fn take_recorded(&mut self) -> Option<WindowEnd> {
        let mut recording = self.hw.recording.take()?;
        let end = recording.progress(&mut self.hw);
        self.hw.recording = Some(recording);
        end
    }

    /// The window ends.
    fn end_recording(&mut self, end: WindowEnd) {
        if let Some(recording) = self.hw.recording.take() {
            recording.end(&mut self.hw, &self.os, end);
            self.hw.hierarchy.keep_dram_log(false);
        }
    }

    /// The run has ended: so has its window, or it never began.
    pub(crate) fn end_timeline(&mut self) {
        self.end_recording(WindowEnd::RunEnded);
        let Some(run) = self.timeline.take().filter(|run| !run.begun) else { return };
        let measured = if self.phase() == Phase::Setup { 0 } else { self.hw.instructions() };
        run.part.ended(RecordedWindow {
            design: run.design.clone(),
            from: measured,
            instructions: 0,
            cycles: 0,
            events: 0,
            bytes: 0,
            end: None,
        });
    }
}
