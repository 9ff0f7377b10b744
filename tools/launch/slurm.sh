#!/usr/bin/env bash
# Pre-training on several Slurm nodes, one worker per node:
#   sbatch --nodes=4 tools/launch/slurm.sh --flagfile=configs/base.cfg \
#       --corpus=/shared/text --data_dir=/shared/data
# A job that nears its time limit, is pre-empted or loses a node is requeued,
# and resumes from its last checkpoint.
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

# Failures that a restart cannot fix end here. srun returns the highest exit
# code of all workers. 42, stopped with a checkpoint, is no failure, however
# many jobs a run needs; Slurm counts their restarts with all others.
case $code in
    0 | 2 | 3 | 4 | 5 | 6) ;;
    *)
        if [[ $code -eq 42 || ${SLURM_RESTART_COUNT:-0} -lt 20 ]]; then
            scontrol requeue "$SLURM_JOB_ID"
        fi
        ;;
esac
exit "$code"
