#!/usr/bin/env bash
# A pre-training on several nodes of Slurm, one worker a node:
#   sbatch --nodes=4 tools/launch/slurm.sh --flagfile=configs/base.cfg \
#       --data_dir=/shared/data
# A job that is about to reach its time limit, is pre-empted or lost a node
# goes back into the queue and goes on from its last checkpoint.
#SBATCH --job-name=electra
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@600
set -uo pipefail

port=2222
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
ADDRESSES=$(echo "$hosts" | sed "s/\$/:$port/" | paste -sd,)
export ADDRESSES

# Slurm sends the signal of --signal to the workers themselves. After a failure
# they end by themselves within a minute; srun kills those that hang after five.
srun --kill-on-bad-exit=0 --wait=300 bash -c \
    'exec bash tools/launch/worker.sh "$ADDRESSES" "$SLURM_PROCID" "$@"' - "$@"
code=$?

# What a restart cannot mend ends here. srun gives the highest code of all
# workers.
case $code in
    0 | 2 | 3 | 4 | 5 | 6) ;;
    *)
        if [[ ${SLURM_RESTART_COUNT:-0} -lt 20 ]]; then
            scontrol requeue "$SLURM_JOB_ID"
        fi
        ;;
esac
exit "$code"
