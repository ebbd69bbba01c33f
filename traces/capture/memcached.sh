#!/usr/bin/env bash
# memcached with four workers under a client on the loopback: a window of sets and gets.
source "$(dirname "$0")/common.sh"
need memcached memcached; need bc bc
port=7792
"$ambulator" capture --skip 20M --take 200M --out memcached.amb -- memcached -u nobody -l 127.0.0.1 -p $port -t 4 -m 512 >server.log 2>&1 &
capture=$!
began=$(date +%s.%N)
python3 - $port <<'PY' || true
import random, socket, sys, threading, time
port = int(sys.argv[1])
def client(seed):
    rng = random.Random(seed)
    for _ in range(100):
        try:
            s = socket.create_connection(("127.0.0.1", port)); break
        except OSError:
            time.sleep(0.1)
    try:
        while True:
            parts = []
            for _ in range(50):
                key = f"key{int(rng.paretovariate(0.5)) % 300000}"
                if rng.random() < 0.5:
                    parts.append(f"set {key} 0 0 200 noreply\r\n{'x' * 200}\r\n")
                else:
                    parts.append(f"get {key}\r\n")
            s.sendall("".join(parts).encode())
            s.settimeout(0.05)
            try:
                while s.recv(1 << 16): pass
            except TimeoutError:
                pass
    except OSError:
        pass
threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
PY
wait $capture || true
took=$(echo "$(date +%s.%N) - $began" | bc)
row "memcached -t 4 under four clients" 0 memcached.amb "$took"
