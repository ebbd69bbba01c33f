#!/usr/bin/env bash
# Starts a Slurm controller and one node on this machine, in a folder of their own, runs a command beside them,
# and stops them. Debian's packages slurmctld, slurmd, slurm-client and munge; root, because slurmd needs it.
#
#   scripts/slurm-node.sh COMMAND [ARGUMENT...]
#
# The command has SLURM_CONF set, so that sbatch, squeue and scancel talk to this controller. CPUS says how many
# processors the node has (2): more than the machine has is fine.
set -euo pipefail

((EUID == 0)) || { echo "slurm-node: slurmd needs root" >&2; exit 2; }
(($#)) || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
packages=(slurmctld slurmd slurm-client munge)
if ! command -v slurmctld slurmd sbatch munged >/dev/null; then
    apt-get update -qq || true
    # Nothing is to be started by their installation.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null
fi

folder=$(mktemp -d /tmp/slurm-node-XXXXXX)
host=$(hostname -s)
conf=$folder/slurm.conf
mkdir -p "$folder"/{state,spool,munge}
chmod 755 "$folder"
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 status=none
chmod 700 "$folder/munge"
chmod 600 "$folder/munge/key"
cat >"$conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=46817
SlurmdPort=46818
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=1,defer_batch
MinJobAge=300
KillWait=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=${CPUS:-2} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
export SLURM_CONF=$conf

stop() {
    for name in slurmd slurmctld munged; do
        [[ -s $folder/$name.pid ]] && kill "$(<"$folder/$name.pid")" 2>/dev/null
    done
    sleep 0.5
    [[ ${KEEP:-} ]] && echo "slurm-node: $folder is kept" >&2 || rm -rf "$folder"
}
trap stop EXIT

munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge/seed" >/dev/null 2>&1
slurmctld -f "$conf" >/dev/null 2>&1
slurmd -f "$conf" -N "$host" >/dev/null 2>&1
for _ in {1..100}; do
    [[ $(sinfo -h -o %T 2>/dev/null) == idle* ]] && break
    sleep 0.1
done
[[ $(sinfo -h -o %T 2>/dev/null) == idle* ]] || { echo "slurm-node: the node is not ready" >&2; tail -5 "$folder"/*.log >&2; exit 1; }
status=0
"$@" || status=$?
exit $status
