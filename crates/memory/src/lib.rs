//! Simulated physical memory (bytes, where translation structures live) and its frame allocators.
