//! The kernel's state in a checkpoint.

use crate::Kernel;
use ambulator_base::{Archive, Asid, Each, ProcessId, State};

/// Processes are made as they were at first; then everything loads its state in place, what the making has
/// changed included.
impl State for Kernel {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut lives = self.processes.lives();
        lives.state(archive);
        if archive.loads()
            && let Err(why) = self.make_processes(&lives)
        {
            return archive.fail(why);
        }
        let Kernel {
            memory,
            frames,
            ledger,
            counters,
            cores: _,
            spec: _,
            costs: _,
            processes,
            identifiers,
            factory: _,
            placement,
            owners,
            swap,
            reclaim_schedule,
            promotion_schedule,
            shootdowns,
            migrations,
            zeroed,
            pinned,
            huge_pages,
            initially_taken,
            exited,
            numa,
        } = self;
        processes.state(archive);
        identifiers.state(archive);
        placement.state(archive);
        memory.state(archive);
        frames.state(archive);
        ledger.state(archive);
        counters.state(archive);
        owners.state(archive);
        swap.state(archive);
        reclaim_schedule.state(archive);
        promotion_schedule.state(archive);
        shootdowns.state(archive);
        migrations.state(archive);
        zeroed.state(archive);
        pinned.state(archive);
        huge_pages.state(archive);
        initially_taken.state(archive);
        exited.state(archive);
        numa.each(archive);
    }
}

impl Kernel {
    /// Makes the processes that live, by number, and no others.
    fn make_processes(&mut self, lives: &[Option<Asid>]) -> Result<(), String> {
        for (number, asid) in lives.iter().enumerate() {
            let process = ProcessId(number as u32);
            let there = number < self.processes.len();
            match asid {
                None if there => self.processes.forget(number),
                None => self.processes.skip_number(),
                Some(_) if self.processes.find(process).is_some() => {}
                Some(_) if there => return Err(format!("process {number} lives in the checkpoint only")),
                Some(asid) => {
                    let Kernel { factory, memory, frames, ledger, costs, cores, .. } = self;
                    let mut os = crate::TableContext { memory, frames, ledger, costs, cores: *cores };
                    let made = factory
                        .new_process(process, *asid, &mut os)
                        .map_err(|error| format!("process {number} cannot be made again ({error:?})"))?;
                    self.processes.add(*asid, made);
                }
            }
        }
        if self.processes.len() > lives.len() {
            return Err("this machine has more processes".into());
        }
        Ok(())
    }
}
