"""The host's own speed beside the simulator's: programs of tools/native-speed, and paired runs.

A host that others use too is fast in one second and slow in the next. So what is compared alternates: one run of each,
then again, and the ratio of each such pair counts.
"""

import os
import re
import statistics
import subprocess
import sys


def cpu():
    """The host's CPU, and how many of them."""
    with open("/proc/cpuinfo") as file:
        name = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    with open("/proc/meminfo") as file:
        total = int(re.search(r"^MemTotal:\s*(\d+)", file.read(), re.M)[1]) << 10
    found = name[1].strip() if name else os.uname().machine
    return f"{found}, {os.cpu_count()} CPUs, {total / (1 << 30):.0f} GiB of memory"


def free_memory():
    """Bytes that can be taken without swapping."""
    with open("/proc/meminfo") as file:
        return int(re.search(r"^MemAvailable:\s*(\d+)", file.read(), re.M)[1]) << 10


class Native:
    """A prepared native program, which runs when it is asked to."""

    def __init__(self, binary, *arguments):
        self.arguments = [str(argument) for argument in arguments]
        command = [binary, *self.arguments]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            sys.exit(f"bench: {binary} cannot be run ({error}); `make bench` builds it")
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"bench: {' '.join(command)} failed")

    def rate(self, seconds):
        """Units of work a second, over at least so many seconds."""
        print(seconds, file=self.process.stdin, flush=True)
        units, nanoseconds = map(int, self.process.stdout.readline().split())
        return units * 1e9 / nanoseconds

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def paired(times, first, second):
    """Alternates two measurements; returns the medians of both and of the ratios first / second, and their range."""
    pairs = []
    for turn in range(times):
        # Who begins alternates as well.
        if turn % 2 == 0:
            a = first()
            b = second()
        else:
            b = second()
            a = first()
        pairs.append((a, b))
    ratios = [a / b for a, b in pairs]
    middle = statistics.median
    return middle([a for a, _ in pairs]), middle([b for _, b in pairs]), middle(ratios), (min(ratios), max(ratios))
