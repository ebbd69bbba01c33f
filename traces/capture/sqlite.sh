#!/usr/bin/env bash
# SQLite: a database in memory, rows inserted, indexed and joined.
source "$(dirname "$0")/common.sh"
need sqlite3 sqlite3; need bc bc
cat >work.sql <<'SQL'
CREATE TABLE a(k INTEGER, v TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
INSERT INTO a SELECT (i * 7919) % 100003, 'value ' || i FROM n;
CREATE INDEX by_k ON a(k);
SELECT count(*), sum(length(x.v)) FROM a x JOIN a y ON x.k = (y.k * 31) % 100003;
SQL
line=(sqlite3 :memory: ".read work.sql")
native=$(seconds "${line[@]}")
took=$(seconds "$ambulator" capture --out sqlite.amb -- "${line[@]}")
row "sqlite3, insert, index, join (50k rows)" "$native" sqlite.amb "$took"
