#!/usr/bin/env bash
# MUMmer 3: maximal matches of two genomes, the whole run.
source "$(dirname "$0")/common.sh"
need mummer mummer; need bc bc
dna 500000 1 reference >reference.fa; dna 200000 2 query >query.fa
line=(mummer -maxmatch -l 20 reference.fa query.fa)
native=$(seconds "${line[@]}")
took=$(seconds "$ambulator" capture --out mummer.amb -- "${line[@]}")
row "mummer -maxmatch -l 20 (500 kbp)" "$native" mummer.amb "$took"
