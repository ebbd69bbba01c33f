#!/usr/bin/env bash
# jellyfish: k-mer counting, a window after the hash table has filled a little.
source "$(dirname "$0")/common.sh"
need jellyfish jellyfish; need bc bc
dna 500000 3 reads >reads.fa
line=(jellyfish count -m 21 -s 50M -t 1 -o counts.jf reads.fa)
took=$(seconds "$ambulator" capture --skip 500M --take 200M --out jellyfish.amb -- "${line[@]}")
row "jellyfish count -m 21 -s 50M (a window of 200 M instructions)" 0 jellyfish.amb "$took"
