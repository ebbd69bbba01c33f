"""A page table of your own. A slot is two words: a tag, the page's number plus 1, and the entry."""

from collections.abc import Iterator

import ambulator

SLOT, FRAME = 16, 4096


class LinearProbing(ambulator.PageTable):
    """A hashed page table with linear probing."""

    max_loads = 256

    def __init__(self) -> None:
        self.pages, self.slots, self.base = 0, FRAME // SLOT, self.frames.allocate()

    def places(self, tag: int) -> Iterator[int]:
        """The addresses of the slots where a page can be, the first that has room is taken."""
        first = tag * 0x9E3779B97F4A7C15 >> 32
        return (self.base + (first + step) % self.slots * SLOT for step in range(self.slots))

    def map(self, page: ambulator.Page, entry: int) -> None:
        if self.pages * 2 >= self.slots:
            self.grow()
        self.insert(page.number + 1, entry)
        self.pages += 1

    def insert(self, tag: int, entry: int) -> None:
        at = next(at for at in self.places(tag) if self.memory.read(at + 8) == 0)
        self.memory.write(at, tag)
        self.memory.write(at + 8, entry)

    def grow(self) -> None:
        old, slots = self.base, self.slots
        self.base, self.slots = self.frames.allocate(2 * slots * SLOT // FRAME), 2 * slots
        for at in range(old, old + slots * SLOT, SLOT):
            if entry := self.memory.read(at + 8):
                self.insert(self.memory.read(at), entry)
        self.memory.charge(100 * self.pages)
        self.frames.release(old)

    def unmap(self, page: ambulator.Page) -> None:
        at = next(at for at in self.places(page.number + 1) if self.memory.read(at) == page.number + 1)
        self.memory.write(at + 8, 0)  # The tag stays: a walk for a page behind it goes on.
        self.pages -= 1

    def walk(self, va: int, port: ambulator.Port) -> int | None:
        for at in self.places((va >> 12) + 1):
            tag, entry = port.read_all([at, at + 8])
            if tag == 0 or tag == (va >> 12) + 1:
                return at + 8 if entry else None
        return None


if __name__ == "__main__":
    print(ambulator.conformance(LinearProbing))
    print(ambulator.compare("gups", ["radix", LinearProbing, "ideal"], footprint="16MiB", instructions="200K"))
