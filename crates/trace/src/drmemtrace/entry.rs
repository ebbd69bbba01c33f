//! The entries of a drmemtrace file.
//!
//! ```text
//! u16 type   u16 size   u64 value          (little-endian, 12 bytes; 8 with a u32 value from a 32-bit tracer)
//! ```
//!
//! Source: `clients/drcachesim/common/trace_entry.h` of DynamoRIO. What `size` and `value` are depends on the
//! type: bytes and address of an access, length and address of an instruction, kind and value of a marker.

use crate::compressed::Unpacked;
use ambulator_base::SourceError;

/// Newest version of the format that is known.
pub(crate) const NEWEST_VERSION: u64 = 7;

/// Types of entries, by the names of the header file without `TRACE_TYPE_`.
pub(crate) mod kind {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const FIRST_PREFETCH: u16 = 2;
    pub(crate) const LAST_PREFETCH: u16 = 9;
    pub(crate) const INSTR: u16 = 10;
    pub(crate) const INSTR_INDIRECT_JUMP: u16 = 12;
    pub(crate) const INSTR_CONDITIONAL_JUMP: u16 = 13;
    pub(crate) const INSTR_INDIRECT_CALL: u16 = 15;
    pub(crate) const INSTR_RETURN: u16 = 16;
    pub(crate) const INSTR_BUNDLE: u16 = 17;
    pub(crate) const FIRST_FLUSH: u16 = 18;
    pub(crate) const LAST_FLUSH: u16 = 21;
    pub(crate) const THREAD: u16 = 22;
    pub(crate) const THREAD_EXIT: u16 = 23;
    pub(crate) const PID: u16 = 24;
    pub(crate) const HEADER: u16 = 25;
    pub(crate) const FOOTER: u16 = 26;
    pub(crate) const HARDWARE_PREFETCH: u16 = 27;
    pub(crate) const MARKER: u16 = 28;
    pub(crate) const INSTR_NO_FETCH: u16 = 29;
    pub(crate) const INSTR_MAYBE_FETCH: u16 = 30;
    pub(crate) const INSTR_SYSENTER: u16 = 31;
    pub(crate) const FIRST_LEVEL_PREFETCH: u16 = 32;
    pub(crate) const LAST_LEVEL_PREFETCH: u16 = 46;
    pub(crate) const ENCODING: u16 = 47;
    pub(crate) const INSTR_TAKEN_JUMP: u16 = 48;
    pub(crate) const INSTR_UNTAKEN_JUMP: u16 = 49;
}

/// Kinds of markers, by the names of the header file without `TRACE_MARKER_TYPE_`.
pub(crate) mod marker {
    pub(crate) const KERNEL_EVENT: u16 = 0;
    pub(crate) const TIMESTAMP: u16 = 2;
    pub(crate) const CPU_ID: u16 = 3;
    pub(crate) const FUNC_ID: u16 = 4;
    pub(crate) const FUNC_ARG: u16 = 6;
    pub(crate) const FUNC_RETVAL: u16 = 7;
    pub(crate) const FILETYPE: u16 = 9;
    pub(crate) const CACHE_LINE_SIZE: u16 = 10;
    pub(crate) const VERSION: u16 = 12;
    pub(crate) const WINDOW_ID: u16 = 14;
    pub(crate) const PHYSICAL_ADDRESS: u16 = 15;
    pub(crate) const VIRTUAL_ADDRESS: u16 = 17;
    pub(crate) const PAGE_SIZE: u16 = 18;
    pub(crate) const SYSCALL_TRACE_START: u16 = 27;
    pub(crate) const SYSCALL_TRACE_END: u16 = 28;
    pub(crate) const BRANCH_TARGET: u16 = 29;
    pub(crate) const CONTEXT_SWITCH_START: u16 = 34;
    pub(crate) const CONTEXT_SWITCH_END: u16 = 35;
}

/// Bits of a `FILETYPE` marker.
pub(crate) mod file_type {
    pub(crate) const FILTERED: u64 = 0x01 | 0x80 | 0x100;
    pub(crate) const INSTRUCTION_ONLY: u64 = 0x04;
    pub(crate) const ARCH_AARCH64: u64 = 0x08;
    pub(crate) const ARCH_X86_64: u64 = 0x40;
    pub(crate) const ENCODINGS: u64 = 0x200;
    pub(crate) const KERNEL_TEMPLATES: u64 = 0x4000;
    pub(crate) const ARCH_REGDEPS: u64 = 0x2_0000;
}

/// One entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: u16,
    pub size: u16,
    pub value: u64,
}

impl Entry {
    /// Its 12 bytes in a file of a 64-bit tracer.
    pub(crate) fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.size.to_le_bytes());
        bytes[4..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// Bytes of an entry in a file that begins so; `None` if it is not one of drmemtrace's.
pub(crate) fn entry_bytes(head: &[u8]) -> Option<usize> {
    let short = |at: usize| head.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    let begins =
        short(0) == Some(kind::HEADER) && short(2)? <= 8 && matches!(short(4)?, 1..=999) && short(6) == Some(0);
    let second = |at: usize| matches!(short(at), Some(kind::THREAD | kind::MARKER));
    match begins {
        true if second(12) && head[8..12] == [0; 4] => Some(12),
        true if second(8) => Some(8),
        _ => None,
    }
}

/// The entries of a file.
pub(crate) struct Entries {
    pub(crate) input: Unpacked,
    bytes: usize,
    /// The last entry was a footer.
    ended: bool,
}

impl Entries {
    /// # Errors
    /// The file cannot be read, or does not begin as one of drmemtrace's.
    pub(crate) fn new(mut input: Unpacked) -> Result<Entries, SourceError> {
        let head = input.peek(24).map_err(SourceError::new)?;
        let Some(bytes) = entry_bytes(head) else {
            let shown: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
            return Err(SourceError::new(format!(
                "{}: is not a trace file of drmemtrace: it begins with the bytes {}, and those begin with 19 00 00 00 and \
                 a version",
                input.name(),
                shown.join(" ")
            )));
        };
        Ok(Entries { input, bytes, ended: false })
    }

    /// Bytes of an encoding that an entry can hold.
    pub(crate) fn value_bytes(&self) -> usize {
        self.bytes - 4
    }

    /// The place of the next entry, for errors.
    pub(crate) fn place(&self) -> String {
        let packed = if self.input.compression.name().is_some() { "unpacked " } else { "" };
        format!("{}: the entry at {packed}byte {}", self.input.name(), self.input.offset)
    }

    /// The next entry without consuming it; `None` at the end.
    ///
    /// # Errors
    /// The file is damaged or ends without a footer.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<Entry>, SourceError> {
        let bytes = self.input.peek(self.bytes).map_err(SourceError::new)?;
        if bytes.len() < self.bytes {
            let left = bytes.len();
            return if left == 0 && self.ended { Ok(None) } else { Err(self.cut(left)) };
        }
        let mut value = [0; 8];
        value[..self.bytes - 4].copy_from_slice(&bytes[4..self.bytes]);
        Ok(Some(Entry {
            kind: u16::from_le_bytes([bytes[0], bytes[1]]),
            size: u16::from_le_bytes([bytes[2], bytes[3]]),
            value: u64::from_le_bytes(value),
        }))
    }

    /// Consumes the entry that [`Entries::peek`] showed.
    #[inline]
    pub(crate) fn consume(&mut self, entry: Entry) {
        self.ended = entry.kind == kind::FOOTER;
        self.input.consume(self.bytes);
    }

    #[cold]
    fn cut(&self, left: usize) -> SourceError {
        let packed = if self.input.compression.name().is_some() { "unpacked " } else { "" };
        let (name, offset) = (self.input.name(), self.input.offset);
        SourceError::new(match left {
            0 => format!("{name}: the trace is cut short: it ends at {packed}byte {offset} without a footer"),
            _ => format!(
                "{name}: the trace is cut short: {left} bytes at {packed}byte {offset}, where an entry has {}",
                self.bytes
            ),
        })
    }
}
