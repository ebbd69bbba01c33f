#!/bin/sh
# Makes mummer.amb anew: a window of MUMmer building its suffix tree, captured with qemu-user and tools/capture-plugin.
# Needs Debian 12 with: apt-get install qemu-user mummer perl, and cargo. Takes about a minute.
#
# usage: traces/make-mummer.sh [OUTPUT]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "${1:-$here/mummer.amb}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for program in qemu-x86_64 mummer perl cargo; do
    command -v "$program" >/dev/null || { echo "$0: $program is not installed (apt-get install qemu-user mummer perl; cargo from rustup)" >&2; exit 1; }
done

# A random reference of 10 Mbp and a random query of 200 kbp, the same on every machine (a linear congruential generator's top bits).
random_dna() {
    perl -e '
        use integer;
        my ($bases, $state, $name) = @ARGV;
        my @letters = qw(A C G T);
        my $line = "";
        print ">$name\n";
        for (1 .. $bases) {
            $state = ($state * 1103515245 + 12345) & 0x7fffffff;
            $line .= $letters[($state >> 29) & 3];
            if (length($line) == 80) { print "$line\n"; $line = ""; }
        }
        print "$line\n" if $line ne "";
    ' "$1" "$2" "$3"
}
random_dna 10000000 1 reference >"$work/reference.fa"
random_dna 200000 2 query >"$work/query.fa"

ambulator=$(realpath -m "${AMBULATOR:-${CARGO_TARGET_DIR:-$here/../target}/release/ambulator}")
make -C "$here/.." ambulator capture-plugin

# The processor model without enhanced REP MOVSB lets the C library copy with vectors, as it does natively.
# The construction of the suffix tree runs from 0.3 to 3.0 G instructions; the window opens when the tree has 140 MB.
skip=2700000000
take=7000000
program=$(command -v mummer)
cd "$work"
# The program sees these variables: its stack begins above them.
env -i PATH="$PATH" \
    AMBULATOR_DETAIL="mummer -maxmatch -l 20 reference.fa query.fa (Debian MUMmer 3.23, random 10 Mbp reference), $take instructions after $skip" \
    "$ambulator" capture --no-progress --out "$out" --cpu Haswell-noTSX,erms=off --skip "$skip" --take "$take" --level 19 -- \
    "$program" -maxmatch -l 20 reference.fa query.fa >/dev/null
ls -l "$out"
