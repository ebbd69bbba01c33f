//! Which design is in which socket.

use crate::{DesignSettings, Socket};
use ambulator_mmu::PwcSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The translation design of a machine: the name of a design for each socket. A published system is a preset
/// of this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DesignSpec {
    /// The page table.
    #[schemars(extend("x-unit" = "choice"))]
    pub page_table: String,
    /// What is probed with the L2 TLB, or right after it.
    #[schemars(extend("x-unit" = "choice"))]
    pub lookaside: String,
    /// Another lookaside, for pages that the first does not hold: both are probed, and the first is believed.
    #[schemars(extend("x-unit" = "choice"))]
    pub second_lookaside: String,
    /// What issues speculative fetches on an L2 TLB miss.
    #[schemars(extend("x-unit" = "choice"))]
    pub speculation: String,
    /// What prefetches translations after an L2 TLB miss.
    #[serde(default = "no_prefetcher")]
    #[schemars(extend("x-unit" = "choice"))]
    pub tlb_prefetch: String,
    /// Where the kernel places pages.
    #[schemars(extend("x-unit" = "choice"))]
    pub placement: String,
    /// What translates before the caches.
    #[schemars(extend("x-unit" = "choice"))]
    pub front_side: String,
}

/// The key of the second lookaside, below `design`.
pub(crate) const SECOND_LOOKASIDE: &str = "second_lookaside";

/// What specs from before the socket have in it.
fn no_prefetcher() -> String {
    Socket::TlbPrefetch.empty().unwrap_or_default().to_owned()
}

impl DesignSpec {
    /// A machine with that page table and nothing else.
    pub fn with_table(page_table: &str) -> DesignSpec {
        let empty = |socket: Socket| socket.empty().unwrap_or_default().to_owned();
        DesignSpec {
            page_table: page_table.into(),
            lookaside: empty(Socket::Lookaside),
            second_lookaside: empty(Socket::Lookaside),
            speculation: empty(Socket::Speculation),
            tlb_prefetch: empty(Socket::TlbPrefetch),
            placement: empty(Socket::Placement),
            front_side: empty(Socket::FrontSide),
        }
    }

    /// The design in a socket; of the two lookasides, the first.
    pub fn of(&self, socket: Socket) -> &str {
        match socket {
            Socket::PageTable => &self.page_table,
            Socket::Lookaside => &self.lookaside,
            Socket::Speculation => &self.speculation,
            Socket::TlbPrefetch => &self.tlb_prefetch,
            Socket::Placement => &self.placement,
            Socket::FrontSide => &self.front_side,
        }
    }

    /// Puts a design into a socket; of the two lookasides, into the first.
    pub fn put(&mut self, socket: Socket, name: &str) {
        let slot = match socket {
            Socket::PageTable => &mut self.page_table,
            Socket::Lookaside => &mut self.lookaside,
            Socket::Speculation => &mut self.speculation,
            Socket::TlbPrefetch => &mut self.tlb_prefetch,
            Socket::Placement => &mut self.placement,
            Socket::FrontSide => &mut self.front_side,
        };
        name.clone_into(slot);
    }

    /// Whether a design is in a socket; of the two lookasides, in either.
    pub fn holds(&self, socket: Socket, name: &str) -> bool {
        self.of(socket) == name || socket == Socket::Lookaside && self.second_lookaside == name
    }

    /// Each key below `design`, with its socket and the name of the design in it.
    pub fn entries(&self) -> [(&'static str, Socket, &str); 7] {
        let entry = |socket: Socket| (socket.key(), socket, self.of(socket));
        [
            entry(Socket::PageTable),
            entry(Socket::Lookaside),
            (SECOND_LOOKASIDE, Socket::Lookaside, &self.second_lookaside),
            entry(Socket::Speculation),
            entry(Socket::TlbPrefetch),
            entry(Socket::Placement),
            entry(Socket::FrontSide),
        ]
    }
}

/// A translation design with everything that is needed to build it.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which design is in which socket.
    pub design: DesignSpec,
    /// The settings of all designs.
    pub settings: DesignSettings,
    /// Bits of a virtual address: 48 or 57.
    pub va_bits: u32,
    /// The page-walk caches of the machine's MMU.
    pub pwc: PwcSpec,
    /// In a virtual machine, the hypervisor's page table.
    pub hypervisor_table: Option<String>,
}

impl Choice {
    /// The same choice with a design in that socket.
    #[must_use]
    pub fn with(mut self, socket: Socket, name: &str) -> Choice {
        self.design.put(socket, name);
        self
    }
}
