#!/usr/bin/env bash
# Captures the programs that the simulator is compared on with its cycle-driven model: SQLite, Redis and GCC's C compiler.
# (MUMmer's trace is in this folder.) Needs Debian 12 with qemu-user, sqlite3, redis-server, redis-tools, gcc and perl;
# a release build of `ambulator` and `make capture-plugin`. Takes about five minutes.
#
# usage: traces/make-captures.sh FOLDER [sqlite|redis|cc1]...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [sqlite|redis|cc1]..." >&2; exit 1; }
mkdir -p "$1"
out=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- sqlite redis cc1
ambulator=$(realpath "${AMBULATOR:-${CARGO_TARGET_DIR:-$here/../target}/release/ambulator}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for program in qemu-x86_64 sqlite3 redis-server redis-benchmark gcc perl; do
    command -v "$program" >/dev/null || {
        echo "$0: $program is not installed (apt-get install qemu-user sqlite3 redis-server redis-tools gcc perl)" >&2
        exit 1
    }
done

# capture NAME SKIP TAKE PROGRAM...: instructions skipped and taken.
capture() {
    local name=$1 skip=$2 take=$3
    shift 3
    "$ambulator" capture --no-progress --out "$out/$name.amb" --cpu Haswell-noTSX,erms=off --name "$name" \
        --skip "$skip" --take "$take" --level 9 -- "$@"
}

# A table of 400,000 rows in memory, indexed; the window lies in a join that looks its keys up in the index.
sqlite() {
    cat >work.sql <<'SQL'
CREATE TABLE a(k INTEGER, v TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO a SELECT (i * 7919) % 1000003, 'value ' || i FROM n;
CREATE INDEX by_k ON a(k);
SELECT count(*), sum(length(x.v)) FROM a y CROSS JOIN a x ON x.k = (y.k * 31) % 1000003;
SQL
    capture sqlite 3200M 20M "$(command -v sqlite3)" :memory: ".read work.sql" >/dev/null
}

# Half a million random keys with values of 256 bytes are set; the window lies in gets and sets of them.
redis() {
    local port=7791 capture
    capture redis 4G 20M "$(command -v redis-server)" --port $port --save "" --appendonly no >/dev/null &
    capture=$!
    for _ in $(seq 200); do redis-cli -p $port ping >/dev/null 2>&1 && break; sleep 0.1; done
    timeout 600 redis-benchmark -p $port -n 500000 -r 1000000 -d 256 -t set -P 16 -q >/dev/null 2>&1 || true
    timeout 600 redis-benchmark -p $port -n 5000000 -r 1000000 -d 256 -t get,set -P 16 -q >/dev/null 2>&1 || true
    wait $capture
}

# 3000 functions over structures and switches, the same on every machine; the window lies in their optimisation.
cc1() {
    perl -e '
        use integer;
        my $state = 1;
        sub below { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 16) % $_[0] }
        print "struct node { struct node *left, *right; int key, count[8]; double weight; };\n";
        print "extern int use(struct node *, int);\n";
        for my $f (0 .. 2999) {
            print "int f$f(struct node *n, int a, int b) {\n  int s = ", below(1000), ";\n";
            print "  for (int i = 0; i < a; i++) {\n    switch ((s + i) % 7) {\n";
            for my $case (0 .. 6) {
                my ($x, $y) = (below(8), 1 + below(99));
                my @forms = ("s += n->count[$x] * $y;", "if (n->left) n = n->left; else s ^= b << $x;",
                    "n->weight += s / $y.0; s -= $x;", "s = use(n, s + $y);",
                    $f ? "s += f" . below($f) . "(n, i, $y);" : "s++;");
                print "      case $case: $forms[below(5)] break;\n";
            }
            print "    }\n  }\n  return s;\n}\n";
        }' >big.c
    capture cc1 4G 20M "$(gcc -print-prog-name=cc1)" -quiet -O2 big.c -o big.s
}

for program in "$@"; do
    "$program"
    ls -l "$out/$program.amb"
done
