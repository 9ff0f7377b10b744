#!/usr/bin/env bash
# Starts one of several workers of a pre-training:
#   worker.sh HOST:PORT,HOST:PORT,... NUMBER [FLAGS of run_pretraining ...]
# The list of addresses is the same for all workers; NUMBER, from 0, is the
# index of this one.
set -euo pipefail
addresses="\"${1//,/\", \"}\""
task="{\"type\": \"worker\", \"index\": $2}"
export TF_CONFIG="{\"cluster\": {\"worker\": [$addresses]}, \"task\": $task}"
shift 2
exec python -m electra_tf.run_pretraining "$@"
