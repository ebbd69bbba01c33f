#!/usr/bin/env bash
# Studies beyond one process: workers as a Slurm job array, on a real controller and node of this machine, of
# which one is killed; then shards under GNU parallel. Both stores must equal that of one process.
#
#   scripts/test-slurm.sh [AMBULATOR]
#
# Skips, with a line that says so, only where Slurm cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/ambulator}")
if [[ ! ${INSIDE_SLURM_NODE:-} ]]; then
    if ((EUID != 0)) || { ! command -v slurmctld >/dev/null && ! command -v apt-get >/dev/null; }; then
        echo "test-slurm: skipped: Slurm needs root and apt-get"
        exit 0
    fi
    if ! command -v parallel >/dev/null; then
        apt-get update -qq || true
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq parallel >/dev/null
    fi
    # A clean end also where the node is under load.
    INSIDE_SLURM_NODE=1 exec scripts/slurm-node.sh "$0" "$binary"
fi

folder=$(mktemp -d)
trap 'scancel -u root 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
unset AMBULATOR_STORE
fail() { echo "test-slurm: $*" >&2; tail -n 20 shared/logs/* >&2 2>/dev/null || true; exit 1; }
said() { grep -q -- "$2" <<<"$1" || fail "expected \`$2\` in: $1"; }
until_true() { # WHAT COMMAND...
    for _ in {1..300}; do "${@:2}" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "$1 did not happen: $("$binary" sweep study.toml --store shared --status 2>&1 || true)"
}

# Twelve cells of two streams.
cat >study.toml <<'TOML'
designs = ["radix", "thp"]
programs = ["gups", "stream"]
footprint = "16MiB"
instructions = "1M"
warmup = "0"
set = ["memory.bytes=256MiB", "memory.fragmentation.fmfi=0.0"]
vary.mmu.l2_tlb.entries = [512, 1024, 2048]
TOML
sweep() { "$binary" sweep study.toml --no-progress --quiet "$@"; }
rows() { "$binary" results --store "$1" --json - | python3 -c '
import json, sys
rows = json.load(sys.stdin)["rows"]
for row in rows:
    for name in [name for name in row if name.startswith("host.")]:
        del row[name]
print(json.dumps(sorted(rows, key=lambda row: row["cell"]), indent=1))'; }

sweep --store alone
rows alone >alone.json
[[ $(grep -c '"cell"' alone.json) == 12 ]] || fail "the study does not have 12 cells"

# Two workers of two cells at a time; long cells, so that one can be killed while it computes.
long=(--instructions 8M)
"$binary" sweep study.toml "${long[@]}" --store alone --no-progress --quiet &
alone=$!
submit() { "$binary" sweep study.toml "${long[@]}" --store shared --slurm "--time=5" --workers 2 --batch 2 --no-progress 2>&1; }
status() { "$binary" sweep study.toml "${long[@]}" --store shared --status 2>&1 || true; }
said "$("$binary" sweep study.toml "${long[@]}" --store shared --slurm "--time=5" --dry-run 2>&1)" "not submitted"
[[ -z $(squeue -h) ]] || fail "--dry-run has submitted"
said "$(status)" "0 done, 0 running, 0 failed, 12 missing"
said "$(submit)" "study.slurm.sh: 2 workers for 12 cells; submitted as job"

# One is killed while it has cells. The other is stopped meanwhile, so that it does not take them over at once.
workers() { status | sed -n 's/^running: .*process \([0-9]*\), job .*/\1/p'; }
has_cells() { grep -l "\"pid\":$1," shared/claims/* 2>/dev/null | grep -q .; }
both_stopped() {
    mapfile -t pids < <(workers)
    ((${#pids[@]} == 2)) && kill -STOP "${pids[@]}" || return 1
    has_cells "${pids[0]}" && has_cells "${pids[1]}" && return
    kill -CONT "${pids[@]}"
    return 1
}
until_true "two workers with cells" both_stopped
said "$(status)" "Slurm: 2 tasks run"
said "$(submit)" "2 workers are queued or running"
kill -KILL "${pids[0]}"
one_left() { [[ $(squeue -h -r -t R | wc -l) -le 1 ]]; }
until_true "the end of the killed task" one_left
said "$(status)" "of them were left by workers that have ended"
kill -CONT "${pids[1]}"
again=$(submit)
said "$again" "study.slurm.sh: 1 workers for .* submitted as job"
finished() { [[ -z $(squeue -h -r) ]]; }
until_true "the end of all workers" finished
said "$(status)" "12 done, 0 running, 0 failed, 0 missing"
said "$(submit)" "nothing is missing"
grep -q "of them after a worker that had ended" shared/logs/*.log || fail "nobody took the cells of the killed worker over"
wait "$alone"
for store in alone shared; do
    "$binary" results --store "$store" --where run.instructions=8M --columns cell,ipc,mmu.walks,cycles --csv "$store.csv" >/dev/null
done
[[ $(wc -l <shared.csv) == 13 ]] || fail "the shared store has $(wc -l <shared.csv) lines"
cmp alone.csv shared.csv || fail "the workers' results differ from those of one process"
! ls shared/claims | grep -qv '^\.clock$' || fail "claims are left: $(ls shared/claims)"
echo "test-slurm: 12 cells by two workers, one of which was killed: equal to one process ($SECONDS s)"

# Workers that share checkpoints. Two begin at once, one cell at a time: both make the checkpoint of the first
# cells, and every other cell starts from one that is complete. The windows are those of one process without any.
cat >shared-state.toml <<'TOML'
designs = ["radix"]
programs = ["gups"]
footprint = "64MiB"
instructions = "300k"
warmup = "3M"
set = ["memory.bytes=256MiB", "memory.fragmentation.fmfi=0.0", "run.warmup_mode=functional", "run.warmup_timing=50k"]
vary.core.rob = [96, 128, 160, 192, 224, 256]
TOML
sampled=(--set run.sampling=windows --set run.sample_period=20k --set run.sample_window=4k --set run.sample_timing=4k)
"$binary" sweep shared-state.toml "${sampled[@]}" --store plain --no-progress --quiet
submitted=$("$binary" sweep shared-state.toml "${sampled[@]}" --checkpoint kept --store restored --slurm "--time=5" --workers 2 \
    --batch 1 2>&1)
said "$submitted" "shared-state.slurm.sh: 2 workers for 6 cells; submitted as job"
said "$(cat shared-state.slurm.sh)" "--checkpoint kept"
said "$(cat shared-state.slurm.sh)" "run.sampling=windows"
until_true "the end of the workers with checkpoints" finished
cat restored/logs/*.log >log
made=$(grep -c "has made the checkpoint kept/" log || true)
started=$(grep -c "starts from the checkpoint kept/" log || true)
((made >= 1 && made <= 2 && made + started == 6)) || fail "$made checkpoints were made, and $started cells started from one: $(cat log)"
[[ $(ls kept/*.ckpt | wc -l) == 1 ]] && ! ls kept | grep -q part || fail "the folder of checkpoints has $(ls kept)"
"$binary" checkpoints kept >/dev/null || fail "the checkpoint is damaged"
for store in plain restored; do
    "$binary" results --store "$store" --columns cell,ipc,cycles,sampled.windows,sampled.half.ipc --csv "$store.csv" >/dev/null
done
[[ $(wc -l <restored.csv) == 7 ]] || fail "the store with checkpoints has $(wc -l <restored.csv) lines"
cmp plain.csv restored.csv || fail "results from checkpoints differ from those without"
echo "test-slurm: 6 sampled cells by two workers, $made made the checkpoint, $started started from it: equal ($SECONDS s)"

# Shards, each with a store of its own; a store is merged by copying its files.
parallel --jobs 2 "'$binary'" sweep study.toml --shard {}/3 --store part-{} --no-progress --quiet ::: 1 2 3
mkdir merged
for part in part-*; do cp -r "$part"/. merged/; done
rows merged >merged.json
"$binary" results --store alone --where run.instructions=1M --json - >/dev/null
cmp alone.json merged.json || fail "the shards' results differ from those of one process"
said "$(sweep --store merged --status 2>&1)" "12 done"
echo "test-slurm: 3 shards under GNU parallel, merged by copying: equal to one process ($SECONDS s)"
