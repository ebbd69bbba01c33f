//! gem5's protobuf traces, plain or in gzip: packets of a memory port (`packet.proto`) and the data file of
//! an elastic trace (`inst_dep_record.proto`).
//!
//! ```text
//! "gem5"   then messages, each after its length (a varint): a header, then packets or instructions
//! ```
//!
//! Source: `src/proto` of gem5. What becomes of it:
//!
//! - **Packets**: requests become loads, stores and fetches; responses and all else are left out. Addresses
//!   are those of the port, so physical ones unless the port is above the TLB. There are no dependences, and
//!   no instructions but one for each access.
//! - **Elastic**: loads and stores become records; computations, and the instructions that gem5 left out (the
//!   `weight`), become gaps. Register dependences are followed through computations to the loads they come
//!   from; order dependences are the core's and not kept. An access has its virtual address where the file
//!   has one; where it has both, the physical one is the place of its page.

use crate::compressed::Unpacked;
use crate::open::{ForeignSource, TraceOptions};
use crate::physical::{PhysicalPages, PhysicalReport};
use crate::processes::Processes;
use crate::registers::{Loads, distance, merge};
use crate::width::Width;
use ambulator_base::{Batch, PageSize, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr};
use prost::Message;

/// How a file begins.
pub(crate) const MAGIC: &[u8; 4] = b"gem5";
/// The name, in an elastic trace's header, of frames that no machine had: its pages got them in the order of
/// their first accesses.
pub(crate) const FIRST_TOUCH: &str = "ambulator.frames_in_order_of_first_access";
/// Longest accepted message; real ones have some tens of bytes.
const LONGEST: usize = 60_000;
/// Longest accepted access.
const LONGEST_ACCESS: u64 = 1 << 16;
/// Instructions that dependences reach back over.
const WINDOW: usize = 1 << 16;
/// `Request::INST_FETCH` and `Request::PREFETCH`.
pub(crate) const FETCH_FLAG: u32 = 0x100;
const PREFETCH_FLAG: u32 = 0x0100_0000;
/// `MemCmd` of requests that read (plain, exclusive, clean, shared, load-locked, locked, swap) and that write
/// (plain, whole lines, store-conditional, locked).
const READS: [u32; 7] = [1, 22, 24, 25, 26, 30, 34];
const WRITES: [u32; 4] = [4, 16, 27, 32];

/// `PacketHeader`, `InstDepRecordHeader` and `InstHeader`, whose first three fields are the same.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(string, optional, tag = "1")]
    pub obj_id: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    pub tick_freq: Option<u64>,
}

/// `InstDepRecordHeader` (`window_size`) and `InstHeader` (`has_mem`, 0 or 1). A `PacketHeader` has no fourth
/// field, or strings in it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct InstructionHeader {
    #[prost(uint64, optional, tag = "4")]
    pub window_size: Option<u64>,
}

/// `Packet`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(uint64, required, tag = "1")]
    pub tick: u64,
    #[prost(uint32, required, tag = "2")]
    pub cmd: u32,
    #[prost(uint64, required, tag = "3")]
    pub addr: u64,
    #[prost(uint32, required, tag = "4")]
    pub size: u32,
    #[prost(uint32, optional, tag = "5")]
    pub flags: Option<u32>,
    #[prost(uint64, optional, tag = "7")]
    pub pc: Option<u64>,
}

/// `InstDepRecord`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Instruction {
    #[prost(uint64, required, tag = "1")]
    pub seq_num: u64,
    #[prost(uint32, required, tag = "2")]
    pub kind: u32,
    #[prost(uint64, optional, tag = "3")]
    pub p_addr: Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    pub size: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub flags: Option<u32>,
    #[prost(uint64, repeated, packed = "false", tag = "6")]
    pub rob_dep: Vec<u64>,
    #[prost(uint64, required, tag = "7")]
    pub comp_delay: u64,
    #[prost(uint64, repeated, packed = "false", tag = "8")]
    pub reg_dep: Vec<u64>,
    #[prost(uint32, optional, tag = "9")]
    pub weight: Option<u32>,
    #[prost(uint64, optional, tag = "10")]
    pub pc: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub v_addr: Option<u64>,
    #[prost(uint32, optional, tag = "12")]
    pub asid: Option<u32>,
}

/// What a file holds, by the fourth field of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Packets,
    Elastic,
}

/// A trace of gem5 as a stream.
pub(crate) struct Gem5Reader {
    input: Unpacked,
    identity: ProgramIdentity,
    contents: Contents,
    processes: Processes,
    width: Width,
    physical: PhysicalPages,
    messages: u64,
    records: u64,
    gap: u64,
    debt: u64,
    /// Elastic: for recent instructions their numbers, and the loads that their results come from.
    recent: Vec<(u64, Loads)>,
    asid: Option<u32>,
    /// Physical addresses are those of a machine.
    places: bool,
    /// The last instruction's address.
    pc: u64,
    /// Accesses without a virtual address.
    physical_only: u64,
    /// Packets that are neither reads nor writes.
    left_out: u64,
    prefetches: u64,
}

impl Gem5Reader {
    /// # Errors
    /// The header is damaged, or is of a trace that is neither of packets nor elastic.
    pub(crate) fn new(
        mut input: Unpacked,
        identity: ProgramIdentity,
        options: &TraceOptions,
    ) -> Result<Gem5Reader, SourceError> {
        input.consume(MAGIC.len());
        let mut reader = Gem5Reader {
            input,
            identity,
            contents: Contents::Packets,
            processes: Processes::new(options.implicit_maps.then_some(options.map_granularity)),
            width: Width::new(options.va_bits),
            physical: PhysicalPages::default(),
            messages: 0,
            records: 0,
            gap: 0,
            debt: 0,
            recent: Vec::new(),
            asid: None,
            places: true,
            pc: 0,
            physical_only: 0,
            left_out: 0,
            prefetches: 0,
        };
        let header = reader.message()?.ok_or_else(|| reader.wrong("the header is missing"))?;
        let known = Header::decode(&header[..]).map_err(|e| reader.wrong(&format!("the header is damaged: {e}")))?;
        reader.contents = match InstructionHeader::decode(&header[..]).map(|header| header.window_size) {
            Err(_) | Ok(None) => Contents::Packets,
            Ok(Some(0 | 1)) => {
                return Err(reader.wrong(
                    "is gem5's trace of executed instructions (inst.proto); read are packet traces and the data file of \
                     elastic traces",
                ));
            }
            Ok(Some(_)) => Contents::Elastic,
        };
        if reader.contents == Contents::Elastic {
            reader.recent = vec![(0, [0; 2]); WINDOW];
        }
        reader.places = known.obj_id.as_deref() != Some(FIRST_TOUCH);
        let from = known.obj_id.filter(|id| !id.is_empty()).map(|id| format!(", of {}", id.escape_debug()));
        let what = if reader.contents == Contents::Elastic { "elastic" } else { "packets" };
        reader.identity.detail = format!("{} ({what}{})", reader.identity.detail, from.unwrap_or_default());
        Ok(reader)
    }

    pub(crate) fn contents(&self) -> Contents {
        self.contents
    }

    #[cold]
    fn wrong(&self, what: &str) -> SourceError {
        let packed = if self.input.compression.name().is_some() { "unpacked " } else { "" };
        SourceError::new(format!(
            "{}: message {} before {packed}byte {}: {what}",
            self.input.name(),
            self.messages,
            self.input.offset
        ))
    }

    /// The next message's bytes; `None` at the end.
    fn message(&mut self) -> Result<Option<Vec<u8>>, SourceError> {
        let head = self.input.peek(10).map_err(SourceError::new)?;
        if head.is_empty() {
            return Ok(None);
        }
        let mut rest = head;
        let available = head.len();
        let length = prost::decode_length_delimiter(&mut rest);
        let used = available - rest.len();
        let length = match length {
            Ok(length) if length <= LONGEST => length,
            Ok(length) => return Err(self.wrong(&format!("the next one has {length} bytes, more than {LONGEST}"))),
            Err(_) => return Err(self.wrong("the length of the next one is damaged or cut short")),
        };
        self.input.consume(used);
        let bytes = self.input.peek(length).map_err(SourceError::new)?;
        if bytes.len() < length {
            let left = bytes.len();
            return Err(self.wrong(&format!("the trace is cut short: {left} bytes are left of {length}")));
        }
        let message = bytes[..length].to_vec();
        self.input.consume(length);
        self.messages += 1;
        Ok(Some(message))
    }

    /// Appends an access in pieces of 64 bytes.
    fn access(&mut self, pc: u64, va: u64, bytes: u64, kind: RecordKind, loads: Loads, batch: &mut Batch) {
        let va = self.width.fit(va);
        let pc = VirtAddr(self.width.fit(pc));
        let bytes = self.width.clip(va, bytes.clamp(1, LONGEST_ACCESS));
        for piece in (0..bytes).step_by(64) {
            self.records += 1;
            let mut gap = 0;
            if piece == 0 {
                let paid = self.debt.min(self.gap);
                gap = self.gap - paid;
                self.debt -= paid;
                self.gap = 0;
            } else {
                self.debt += 1;
            }
            let size = if kind == RecordKind::Fetch { 0 } else { (bytes - piece).min(64) as u8 };
            let [dep1, dep2] = loads.map(|load| distance(self.records, load));
            let (dep1, dep2) = if dep1 == 0 { (dep2, 0) } else { (dep1, dep2) };
            let gap = u32::try_from(gap).unwrap_or(u32::MAX);
            self.processes.push(Record { pc, va: VirtAddr(va + piece), gap, dep1, dep2, size, kind }, batch);
            if kind == RecordKind::Fetch {
                break;
            }
        }
    }

    fn packet(&mut self, bytes: &[u8], batch: &mut Batch) -> Result<(), SourceError> {
        let packet = Packet::decode(bytes).map_err(|e| self.wrong(&format!("is damaged: {e}")))?;
        let flags = packet.flags.unwrap_or(0);
        let kind = match packet.cmd {
            _ if flags & PREFETCH_FLAG != 0 => None,
            cmd if READS.contains(&cmd) && flags & FETCH_FLAG != 0 => Some(RecordKind::Fetch),
            cmd if READS.contains(&cmd) => Some(RecordKind::Load),
            cmd if WRITES.contains(&cmd) => Some(RecordKind::Store),
            _ => None,
        };
        let Some(kind) = kind else {
            self.left_out += 1;
            return Ok(());
        };
        self.processes.enter(0, 0, batch).map_err(|what| self.wrong(&what))?;
        let pc = packet.pc.unwrap_or(if kind == RecordKind::Fetch { packet.addr } else { 0 });
        self.access(pc, packet.addr, u64::from(packet.size), kind, [0; 2], batch);
        Ok(())
    }

    fn elastic(&mut self, bytes: &[u8], batch: &mut Batch) -> Result<(), SourceError> {
        let one = Instruction::decode(bytes).map_err(|e| self.wrong(&format!("is damaged: {e}")))?;
        self.pc = one.pc.unwrap_or(self.pc);
        self.gap += u64::from(one.weight.unwrap_or(0));
        let mut loads = [0; 2];
        for dependence in &one.reg_dep {
            let (number, of) = self.recent[*dependence as usize % WINDOW];
            if number == *dependence {
                loads = merge(loads, of);
            }
        }
        let kind = match one.kind {
            1 => Some(RecordKind::Load),
            2 => Some(RecordKind::Store),
            3 => None,
            other => return Err(self.wrong(&format!("has the type {other}; instructions are 1 to 3"))),
        };
        let prefetch = one.flags.unwrap_or(0) & PREFETCH_FLAG != 0;
        match kind {
            Some(kind) if !prefetch => {
                let Some(va) = one.v_addr.or(one.p_addr) else {
                    return Err(self.wrong("is a load or store without an address"));
                };
                self.enter(one.asid, batch)?;
                if let (true, Some(va), Some(pa)) = (self.places, one.v_addr, one.p_addr) {
                    let va = self.width.fit(va);
                    let place = self.physical.place(self.processes.running(), va, pa, PageSize::SIZE_4K);
                    batch.events.extend(place.map(|place| (batch.records.len() as u32, place)));
                }
                self.physical_only += u64::from(one.v_addr.is_none());
                self.access(one.pc.unwrap_or(0), va, u64::from(one.size.unwrap_or(1)), kind, loads, batch);
                if kind == RecordKind::Load {
                    loads = [self.records, 0];
                }
            }
            Some(_) => {
                self.prefetches += 1;
                self.gap += 1;
            }
            None => self.gap += 1,
        }
        self.recent[one.seq_num as usize % WINDOW] = (one.seq_num, loads);
        Ok(())
    }

    /// The instructions behind the last access.
    fn end(&mut self, batch: &mut Batch) {
        let gap = std::mem::take(&mut self.gap).saturating_sub(std::mem::take(&mut self.debt));
        let pc = VirtAddr(self.width.fit(self.pc));
        if gap > 0 {
            let gap = u32::try_from(gap).unwrap_or(u32::MAX);
            let record = Record { pc, va: pc, gap, kind: RecordKind::Fetch, ..Record::default() };
            self.processes.push(record, batch);
        }
    }

    /// The following records are of this address space.
    fn enter(&mut self, asid: Option<u32>, batch: &mut Batch) -> Result<(), SourceError> {
        if asid != self.asid && self.asid.is_some() {
            self.recent.fill((0, [0; 2]));
        }
        self.asid = asid;
        self.processes.enter(u64::from(asid.unwrap_or(0)), 0, batch).map_err(|what| self.wrong(&what))
    }
}

impl RecordSource for Gem5Reader {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.len() < Batch::TARGET_RECORDS && batch.events.len() < Batch::TARGET_RECORDS {
            let Some(message) = self.message()? else {
                self.end(batch);
                break;
            };
            match self.contents {
                Contents::Packets => self.packet(&message, batch)?,
                Contents::Elastic => self.elastic(&message, batch)?,
            }
        }
        Ok(!batch.is_empty())
    }

    fn may_place(&self) -> bool {
        self.contents == Contents::Elastic && self.places
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.width.notes(self.input.name());
        if self.physical_only > 0 {
            notes.push(format!(
                "{}: accesses without a virtual address, whose physical one stands in for it: {}",
                self.input.name(),
                self.physical_only
            ));
        }
        notes
    }
}

impl ForeignSource for Gem5Reader {
    fn physical(&self) -> Option<PhysicalReport> {
        self.physical.report()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.contents == Contents::Packets {
            remarks.push(
                "a packet trace has the addresses of its port, which are physical below a TLB, and counts one instruction \
                 for each access"
                    .into(),
            );
        }
        if self.left_out > 0 {
            remarks.push(format!("{} packets that are no reads or writes were left out", self.left_out));
        }
        if self.prefetches > 0 {
            remarks.push(format!("{} prefetches count as instructions without an access", self.prefetches));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::*;
    use std::path::PathBuf;

    fn file(scratch: &Scratch, header: &[u8], messages: &[Vec<u8>]) -> PathBuf {
        let mut bytes = MAGIC.to_vec();
        for message in std::iter::once(header).chain(messages.iter().map(Vec::as_slice)) {
            prost::encode_length_delimiter(message.len(), &mut bytes).unwrap();
            bytes.extend(message);
        }
        scratch.file("a.proto", &bytes)
    }

    /// `obj_id: "cpu", tick_freq: 5`, and a window of 192.
    const ELASTIC: &[u8] = &[0x0a, 3, b'c', b'p', b'u', 0x18, 5, 0x20, 0xc0, 1];
    const PACKETS: &[u8] = &[0x0a, 3, b'c', b'p', b'u', 0x18, 5, 0x22, 2, 8, 1];

    fn instruction(seq_num: u64, kind: u32, address: u64, reg_dep: &[u64], weight: u32) -> Vec<u8> {
        Instruction {
            seq_num,
            kind,
            p_addr: (address > 0).then_some(address + 0x10_0000),
            size: Some(8),
            reg_dep: reg_dep.to_vec(),
            weight: Some(weight),
            pc: Some(0x40_0000),
            v_addr: (address > 0).then_some(address),
            ..Instruction::default()
        }
        .encode_to_vec()
    }

    fn read(path: &std::path::Path) -> Result<Vec<Record>, SourceError> {
        let options = TraceOptions { implicit_maps: false, ..TraceOptions::default() };
        crate::tests::drained(&mut *open_trace(path, &options)?).map(|batch| batch.records)
    }

    #[test]
    fn dependences_of_elastic_traces_are_followed_through_computations() {
        let scratch = Scratch::new();
        let messages = [
            instruction(1, 1, 0x8000, &[], 0),
            instruction(2, 3, 0, &[1], 2),
            instruction(3, 1, 0x9000, &[2], 0),
            instruction(4, 2, 0xa000, &[3, 1], 1),
            instruction(5, 1, 0xb000, &[4], 0),
        ];
        let path = file(&scratch, ELASTIC, &messages);
        let found: Vec<_> = read(&path).unwrap().iter().map(|r| (r.va.0, r.gap, r.dep1, r.dep2)).collect();
        assert_eq!(found, [(0x8000, 0, 0, 0), (0x9000, 3, 1, 0), (0xa000, 1, 1, 2), (0xb000, 0, 2, 3)]);
        let summary = info(&path, &TraceOptions::default()).unwrap();
        assert_eq!((summary.format, summary.instructions), (TraceFormat::Gem5Elastic, 8));
        assert_eq!(summary.physical.unwrap().pages, 4);
        let mut source = open_trace(&path, &TraceOptions::default()).unwrap();
        assert!(source.may_place());
        let events = crate::tests::drained(&mut *source).unwrap().events;
        let places = events.iter().filter_map(|(at, event)| match event {
            VmEvent::Place { start, at: pa, .. } => Some((*at, start.0, pa.0)),
            _ => None,
        });
        let expected = [(0, 0x8000, 0x10_8000), (1, 0x9000, 0x10_9000), (2, 0xa000, 0x10_a000), (3, 0xb000, 0x10_b000)];
        assert!(places.eq(expected), "{events:?}");
    }

    #[test]
    fn packets_become_loads_stores_and_fetches() {
        let scratch = Scratch::new();
        let packet = |cmd, addr, flags| {
            Packet { tick: 9, cmd, addr, size: 100, flags: Some(flags), pc: Some(0x40_0000) }.encode_to_vec()
        };
        let messages =
            [packet(1, 0x8000, 0), packet(2, 0x8000, 0), packet(4, 0x9000, 0), packet(1, 0x40_0000, FETCH_FLAG)];
        let path = file(&scratch, PACKETS, &messages);
        let found: Vec<_> = read(&path).unwrap().iter().map(|r| (r.va.0, r.size, r.kind)).collect();
        use RecordKind::*;
        assert_eq!(
            found,
            [(0x8000, 64, Load), (0x8040, 36, Load), (0x9000, 64, Store), (0x9040, 36, Store), (0x40_0000, 0, Fetch)]
        );
        let summary = info(&path, &TraceOptions::default()).unwrap();
        assert_eq!(summary.format, TraceFormat::Gem5Packets);
        assert!(
            summary.notes.iter().any(|note| note.starts_with("1 packets that are no reads")),
            "{:?}",
            summary.notes
        );
    }

    #[test]
    fn damage_is_reported_with_its_place() {
        let scratch = Scratch::new();
        let good = instruction(1, 1, 0x8000, &[], 0);
        let error = |path: &PathBuf| read(path).unwrap_err().message;
        let path = file(&scratch, ELASTIC, &[good.clone(), good.clone()]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let message = error(&path);
        assert!(message.contains("a.proto: message 2 before byte 40") && message.contains("cut short"), "{message}");
        assert!(
            error(&file(&scratch, ELASTIC, &[vec![8, 1, 16, 9]])).contains("has the type 9; instructions are 1 to 3")
        );
        assert!(error(&file(&scratch, ELASTIC, &[vec![8, 1, 16, 1]])).contains("without an address"));
        assert!(error(&file(&scratch, ELASTIC, &[vec![0xff; 9]])).contains("message 2 before byte 25: is damaged"));
        let executed = error(&file(&scratch, &[0x0a, 1, b'c', 0x10, 0, 0x18, 5, 0x20, 1], &[]));
        assert!(executed.contains("inst.proto"), "{executed}");
    }
}
