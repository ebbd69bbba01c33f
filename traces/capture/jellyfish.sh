#!/usr/bin/env bash
# jellyfish: k-mer counting, a window after the hash table has filled a little.
source "$(dirname "$0")/common.sh"
need jellyfish jellyfish; need bc bc
dna 500000 3 reads >reads.fa
line=(jellyfish count -m 21 -s 50M -t 1 -o counts.jf reads.fa)
native=$(seconds "${line[@]}")
took=$(seconds "$ambulator" capture --out jellyfish.amb -- "${line[@]}")
row "jellyfish count -m 21 -s 50M (500 kbp)" "$native" jellyfish.amb "$took"
