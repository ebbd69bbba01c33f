//! DRAMsim3, told of a memory and fed a stream.

use crate::harness::measured::Measured;
use crate::harness::memories::{COMMANDS, Memory, ROW_LINES, RTRS, TRANSACTIONS};
use crate::harness::streams::{Load, Request, Stream};
use dramsim3::MemorySystem;
use std::collections::{HashMap, VecDeque};

/// Requests that may wait outside of DRAMsim3 before a load counts as more than it sustains.
const BACKLOG: usize = 100;

/// A memory in DRAMsim3's form. Current values have no influence on times.
fn ini(memory: &Memory) -> String {
    let Memory { ranks, bank_groups, banks, rows, .. } = *memory;
    let protocol = if bank_groups > 1 { "DDR4" } else { "DDR3" };
    // Eight devices of eight bits; a device's page has eight columns for each line of the row.
    let columns = ROW_LINES * 8;
    let bytes = u64::from(ranks * bank_groups * banks) * u64::from(rows) * ROW_LINES * 64;
    let channel_mib = bytes >> 20;
    let Memory { t_cl, t_cwl, t_rcd, t_rp, t_ras, t_rfc, t_refi, t_faw, t_wr, t_rtp, .. } = *memory;
    let Memory { t_rrd_s, t_rrd_l, t_wtr_s, t_wtr_l, t_ccd_l, .. } = *memory;
    let t_ck = memory.clock_ns();
    // The mapping is our `ro-ba-ra-co-ch`, where the lowest bits of a bank's number are its group.
    format!(
        "[dram_structure]
protocol = {protocol}
bankgroups = {bank_groups}
banks_per_group = {banks}
rows = {rows}
columns = {columns}
device_width = 8
BL = 8

[timing]
tCK = {t_ck}
AL = 0
CL = {t_cl}
CWL = {t_cwl}
tRCD = {t_rcd}
tRP = {t_rp}
tRAS = {t_ras}
tRFC = {t_rfc}
tREFI = {t_refi}
tRRD_S = {t_rrd_s}
tRRD_L = {t_rrd_l}
tWTR_S = {t_wtr_s}
tWTR_L = {t_wtr_l}
tFAW = {t_faw}
tWR = {t_wr}
tRTP = {t_rtp}
tCCD_S = 4
tCCD_L = {t_ccd_l}
tRTRS = {RTRS}

[system]
channel_size = {channel_mib}
channels = 1
bus_width = 64
address_mapping = rochbabgraco
queue_structure = PER_BANK
refresh_policy = RANK_LEVEL_STAGGERED
row_buf_policy = OPEN_PAGE
cmd_queue_size = {COMMANDS}
trans_queue_size = {TRANSACTIONS}

[other]
epoch_period = 2000000000
output_level = 0
"
    )
}

/// A request that DRAMsim3 has not accepted yet, or that is under way.
#[derive(Clone, Copy)]
struct Wanted {
    request: Request,
    /// Since this clock.
    at: u64,
    agent: Option<usize>,
}

/// What DRAMsim3 makes of a stream; an error if it does not sustain the load.
pub fn measure(memory: &Memory, mut stream: Stream) -> Result<Measured, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no folder for DRAMsim3: {error}"))?;
    let file = folder.path().join("memory.ini");
    std::fs::write(&file, ini(memory)).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut system = MemorySystem::new(&file, folder.path()).map_err(|error| format!("DRAMsim3: {error:?}"))?;
    // DRAMsim3's first refresh of its first rank is due after tREFI / ranks, ours after tREFI. The stream
    // begins when that of DRAMsim3 is as far away.
    for _ in 0..memory.t_refi - memory.t_refi / memory.ranks {
        system.tick(|_, _| {});
    }
    let mut waiting: VecDeque<Wanted> = VecDeque::new();
    let mut under_way: HashMap<u64, Vec<Wanted>> = HashMap::new();
    let mut free: Vec<usize> = Vec::new();
    let mut arrival = u64::MAX;
    match stream.load {
        Load::Open(_) => arrival = stream.arrival(),
        Load::Closed(agents) => free.extend(0..agents),
    }
    let mut latencies = Vec::new();
    let (mut clock, mut lines) = (0u64, 0);
    while stream.left > 0 || !waiting.is_empty() || !under_way.is_empty() {
        while arrival <= clock && stream.left > 0 {
            waiting.push_back(Wanted { request: stream.next(0), at: arrival, agent: None });
            arrival = stream.arrival();
        }
        for agent in free.drain(..) {
            if stream.left > 0 {
                waiting.push_back(Wanted { request: stream.next(agent), at: clock, agent: Some(agent) });
            }
        }
        if waiting.len() > BACKLOG {
            return Err(format!("{}: DRAMsim3 does not sustain this load", stream.name));
        }
        waiting.retain(|wanted| {
            let Request { line, write, .. } = wanted.request;
            let accepted = system.can_add(line * 64, write);
            if accepted {
                system.add(line * 64, write);
                lines += 1;
                if write {
                    free.extend(wanted.agent);
                } else {
                    under_way.entry(line).or_default().push(*wanted);
                }
            }
            !accepted
        });
        clock += 1;
        let mut back = Vec::new();
        system.tick(|address, write| {
            if !write {
                let of_line = under_way.get_mut(&(address / 64)).expect("DRAMsim3 returns what was asked for");
                back.push(of_line.remove(0));
                if of_line.is_empty() {
                    under_way.remove(&(address / 64));
                }
            }
        });
        for Wanted { request, at, agent } in back {
            latencies.push((clock - at) as f64 * memory.clock_ns());
            match request.then {
                Some(line) => {
                    let request = Request { line, write: false, then: None };
                    waiting.push_back(Wanted { request, at: clock, agent });
                }
                None => free.extend(agent),
            }
        }
    }
    Ok(Measured::new(latencies, lines, clock as f64 * memory.clock_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::memories::{BURST, MEMORIES, PIPELINE};
    use crate::harness::streams::streams;

    #[test]
    fn an_idle_memory_takes_the_times_of_its_data_sheet() {
        for memory in &MEMORIES {
            let mut stream =
                streams(memory).into_iter().find(|stream| stream.name == "random reads, 1 at once").unwrap();
            stream.left = 1;
            let clocks = memory.t_rcd + memory.t_cl + BURST + PIPELINE;
            let expected = f64::from(clocks) * memory.clock_ns();
            assert!((measure(memory, stream).unwrap().mean_ns - expected).abs() < 1e-3, "{}", memory.name);
        }
    }

    #[test]
    fn a_load_beyond_its_saturation_ends_with_a_message() {
        let stream = streams(&MEMORIES[0]).into_iter().find(|stream| stream.name == "random reads, 90%").unwrap();
        let message = measure(&MEMORIES[0], stream).unwrap_err();
        assert_eq!(message, "random reads, 90%: DRAMsim3 does not sustain this load");
    }
}
