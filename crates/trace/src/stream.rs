//! Reading our format while it is being written: from a pipe, without seeking.

use crate::decode::Decoder;
use crate::format::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, FOOTER_MAGIC, TraceHeader, checksum};
use crate::reader::read_header;
use ambulator_base::{Batch, ProgramIdentity, RecordSource, SourceError};
use std::io::Read;

/// A trace that arrives block by block, without an index.
pub struct TraceStream<R> {
    name: String,
    source: R,
    header: TraceHeader,
    decoder: Decoder,
    payload: Vec<u8>,
    blocks: u64,
    start_given: bool,
    ended: bool,
}

impl<R: Read> TraceStream<R> {
    /// Waits for the header; `name` names the stream in errors.
    ///
    /// # Errors
    /// It is not an Ambulator trace, has another version, or ends within its header.
    pub fn new(mut source: R, name: &str) -> Result<TraceStream<R>, SourceError> {
        let (header, ..) = read_header(&mut source, name, u64::MAX)?;
        let decoder = Decoder::new().map_err(|e| SourceError::new(format!("{name}: {e}")))?;
        let name = name.to_owned();
        Ok(TraceStream {
            name,
            source,
            header,
            decoder,
            payload: Vec::new(),
            blocks: 0,
            start_given: false,
            ended: false,
        })
    }

    fn damaged(&self, what: &str) -> SourceError {
        SourceError::new(format!("{}: block {} of the stream is damaged: {what}", self.name, self.blocks))
    }

    /// Reads the next block's header and payload; `None` at the footer, or where the writer was stopped.
    fn block(&mut self) -> Result<Option<BlockHeader>, SourceError> {
        let mut head = [0; BLOCK_HEADER_BYTES];
        let mut got = 0;
        while got < head.len() {
            // The footer of a short trace may be shorter than a block's header.
            if got >= 4 && head[..4] == FOOTER_MAGIC {
                return Ok(None);
            }
            match self.source.read(&mut head[got..]) {
                Ok(0) => return Ok(None),
                Ok(n) => got += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(SourceError::new(format!("{}: cannot be read: {e}", self.name))),
            }
        }
        if head[..4] == FOOTER_MAGIC {
            return Ok(None);
        }
        if head[..4] != BLOCK_MAGIC {
            return Err(self.damaged("it does not begin with a block's magic number"));
        }
        let header = BlockHeader::decode(&head).map_err(|what| self.damaged(&what))?;
        self.payload.resize(header.payload_bytes as usize, 0);
        if self.source.read_exact(&mut self.payload).is_err() {
            return Ok(None); // the writer was stopped within a block
        }
        if checksum(&head[..32], &self.payload) != header.checksum {
            return Err(self.damaged("its checksum does not fit"));
        }
        Ok(Some(header))
    }
}

impl<R: Read + Send> RecordSource for TraceStream<R> {
    fn identity(&self) -> ProgramIdentity {
        self.header.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if !self.start_given {
            self.start_given = true;
            self.header.start.iter().for_each(|event| batch.push_event(event.clone()));
        }
        if !self.ended {
            match self.block()? {
                Some(header) => {
                    let (records, events) = (header.records as usize, header.events as usize);
                    let limit = 1 << self.header.va_bits;
                    if let Err(what) = self.decoder.decode(&self.payload, records, events, limit, batch) {
                        batch.clear();
                        return Err(self.damaged(&what));
                    }
                    self.blocks += 1;
                }
                None => self.ended = true,
            }
        }
        Ok(!batch.is_empty() || !self.ended)
    }
}
