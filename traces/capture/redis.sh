#!/usr/bin/env bash
# redis-server under redis-benchmark, a real client on the loopback: a window while keys are set and got.
source "$(dirname "$0")/common.sh"
need redis-server redis-server; need redis-tools redis-benchmark; need bc bc
port=7791
"$ambulator" capture --skip 50M --take 300M --out redis.amb -- redis-server --port $port --save "" --appendonly no >server.log 2>&1 &
capture=$!
for _ in $(seq 100); do redis-cli -p $port ping >/dev/null 2>&1 && break; sleep 0.1; done
began=$(date +%s.%N)
timeout 300 redis-benchmark -p $port -n 2000000 -r 1000000 -d 256 -t set,get -P 16 -q >client.log 2>&1 || true
wait $capture || true
took=$(echo "$(date +%s.%N) - $began" | bc)
row "redis-server under redis-benchmark (256-byte values)" 0 redis.amb "$took"
