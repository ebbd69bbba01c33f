//! The designs that there are, for people.

/// A design, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesignInfo {
    /// The name that specs use, as the field writes it.
    pub name: &'static str,
    /// The socket that it sits in: a key of [`DesignSpec`](crate::DesignSpec).
    pub socket: &'static str,
    /// One line: what it is.
    pub about: &'static str,
    /// Where it was published.
    pub paper: &'static str,
}

/// All designs that there are, socket by socket.
pub fn list() -> &'static [DesignInfo] {
    &[
        DesignInfo {
            name: "radix",
            socket: "page_table",
            about: "four or five levels of 512 entries, page-walk caches split by level",
            paper: "Intel SDM volume 3, chapter 4",
        },
        DesignInfo {
            name: "flattened",
            socket: "page_table",
            about: "L4+L3 and L2+L1 merged into 2 MiB nodes where there is one: two loads a walk",
            paper: "Park et al., Every Walk's a Hit, ASPLOS 2022",
        },
        DesignInfo {
            name: "asap",
            socket: "page_table",
            about: "last levels contiguous for each VMA, so that a walk prefetches its last entries at its start",
            paper: "Margaritov et al., Prefetched Address Translation, MICRO 2019",
        },
        DesignInfo {
            name: "ideal",
            socket: "page_table",
            about: "exactly one load a walk, by decree: the bound of every page table",
            paper: "LVM section 6.3, MICRO 2025",
        },
        DesignInfo {
            name: "hashed",
            socket: "page_table",
            about: "one open-addressed hash table for each process, resized as a whole",
            paper: "Huck and Hays, ISCA 1993; Yaniv and Tsafrir, SIGMETRICS 2016",
        },
        DesignInfo {
            name: "ecpt",
            socket: "page_table",
            about: "cuckoo hash tables for each page size that resize little by little, guided by cuckoo walk caches",
            paper: "Skarlatos et al., Elastic Cuckoo Page Tables, ASPLOS 2020",
        },
        DesignInfo {
            name: "me-hpt",
            socket: "page_table",
            about: "ECPT in discontiguous chunks behind an L2P table, resized in place and way by way",
            paper: "Stojkovic et al., Memory-Efficient Hashed Page Tables, HPCA 2023",
        },
        DesignInfo {
            name: "lvm",
            socket: "page_table",
            about: "a learned index of linear models that predicts where each entry is",
            paper: "Learned Virtual Memory, MICRO 2025",
        },
        DesignInfo {
            name: "range-tlb",
            socket: "lookaside",
            about: "ranges of any length beside pages: a range TLB, and a B-tree that the operating system keeps",
            paper: "Karakostas et al., Redundant Memory Mappings, ISCA 2015",
        },
        DesignInfo {
            name: "direct-segment",
            socket: "lookaside",
            about: "one range for each process, its largest, in registers",
            paper: "Basu et al., Efficient Virtual Memory for Big Memory Servers, ISCA 2013",
        },
        DesignInfo {
            name: "clustered-tlb",
            socket: "lookaside",
            about: "entries of eight neighbouring pages whose frames are neighbours, in any order",
            paper: "Pham et al., Increasing TLB Reach by Exploiting Clustering, HPCA 2014",
        },
        DesignInfo {
            name: "revelator",
            socket: "speculation",
            about: "guesses data and table lines by the hash functions that the kernel places by",
            paper: "Kanellopoulos et al., Revelator, 2025",
        },
        DesignInfo {
            name: "spec-tlb",
            socket: "speculation",
            about: "guesses that a page lies in the reservation of its neighbours",
            paper: "Barr et al., SpecTLB, ISCA 2011",
        },
        DesignInfo {
            name: "perfect",
            socket: "speculation",
            about: "fetches the data from the L2 TLB's miss on, wherever it is: the bound of all speculation",
            paper: "Revelator Table 1",
        },
        DesignInfo {
            name: "tiered-hash",
            socket: "placement",
            about: "the frame that a hash of the page names, tier by tier",
            paper: "Kanellopoulos et al., Revelator, 2025",
        },
        DesignInfo {
            name: "pom-tlb",
            socket: "lookaside",
            about: "a TLB of 64K entries in main memory, looked up when the L2 TLB has missed",
            paper: "Ryoo et al., Rethinking TLB Designs in Virtualized Environments, ISCA 2017",
        },
        DesignInfo {
            name: "rest-segs",
            socket: "lookaside",
            about: "segments of set-associative pages, found by tags and filtered by counters; pages move in and out",
            paper: "Kanellopoulos et al., Utopia, MICRO 2023",
        },
        DesignInfo {
            name: "midgard",
            socket: "front_side",
            about: "areas are translated before the caches, pages behind the last level by any page table",
            paper: "Gupta et al., Rebooting Virtual Memory with Midgard, ISCA 2021",
        },
        DesignInfo {
            name: "eager",
            socket: "placement",
            about: "all pages of a request at once, in blocks as large as there are",
            paper: "Karakostas et al., Redundant Memory Mappings, ISCA 2015",
        },
        DesignInfo {
            name: "buddy",
            socket: "placement",
            about: "pages wherever the buddy allocator has room",
            paper: "Linux",
        },
    ]
}
