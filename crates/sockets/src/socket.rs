//! The sockets of a machine.

use std::fmt;

/// The placement of pages in the frames that a trace records.
pub const TRACE_PLACEMENT: &str = "trace";

/// A place in the machine that a design can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Socket {
    /// The page table: its operating-system half and its walker.
    PageTable,
    /// A structure that is probed with the L2 TLB, or right after it.
    Lookaside,
    /// Speculative fetches on an L2 TLB miss.
    Speculation,
    /// Translations prefetched after an L2 TLB miss.
    TlbPrefetch,
    /// The kernel's placement of pages.
    Placement,
    /// Translation before the caches.
    FrontSide,
}

impl Socket {
    /// All sockets, in the order of presentation.
    pub const ALL: [Socket; 6] = [
        Socket::PageTable,
        Socket::Lookaside,
        Socket::Speculation,
        Socket::TlbPrefetch,
        Socket::Placement,
        Socket::FrontSide,
    ];

    /// Its key in a spec, below `design`.
    pub fn key(self) -> &'static str {
        match self {
            Socket::PageTable => "page_table",
            Socket::Lookaside => "lookaside",
            Socket::Speculation => "speculation",
            Socket::TlbPrefetch => "tlb_prefetch",
            Socket::Placement => "placement",
            Socket::FrontSide => "front_side",
        }
    }

    /// The name of an empty socket in a spec; `None` for the page table, which every machine has.
    pub fn empty(self) -> Option<&'static str> {
        match self {
            Socket::PageTable => None,
            Socket::Placement => Some("buddy"),
            _ => Some("none"),
        }
    }

    /// What fills the socket without being a design, beside the empty one: names in a spec, and what they do.
    pub fn built_in(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Socket::Placement => {
                &[(TRACE_PLACEMENT, "pages go where they were in the recorded machine, if the trace says so")]
            }
            _ => &[],
        }
    }

    /// The names that a spec may give without a design: the empty one, and what is built in.
    pub fn own_names(self) -> impl Iterator<Item = &'static str> {
        self.empty().into_iter().chain(self.built_in().iter().map(|(name, _)| *name))
    }

    /// What a machine does when no design fills the socket.
    pub fn empty_meaning(self) -> &'static str {
        match self {
            Socket::PageTable => "",
            Socket::Lookaside => "nothing is probed with the L2 TLB",
            Socket::Speculation => "nothing is fetched speculatively",
            Socket::TlbPrefetch => "translations are found when they are needed",
            Socket::Placement => "pages go wherever the buddy allocator has room",
            Socket::FrontSide => "pages are translated before the caches",
        }
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}
