#!/bin/sh
# Every measurement that a table or picture of the documents shows, one after the other: some hours on two idle cores.
# sh benchmarks/figures.sh PYTHON CIFAR PAIRS, from the root of the checkout. Training that is stored already is not
# repeated: remove a file in benchmarks/ to measure it anew.
set -eu
python=$1 cifar=$2 pairs=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made() { echo "benchmarks/$1_results.json"; }
measure() { script=$1; shift; echo "== $script $*"; "$python" "benchmarks/$script.py" "$@"; }

measure selection --cifar "$cifar/cifar-100-python" --json "$(made selection)"
measure overhead --cifar "$cifar/cifar-100-python" --json "$(made overhead)"
measure batch_norm --json "$(made batch_norm)"
measure training --cifar "$cifar" --methods Shuffle Spectral Cut --output "$(made training)"
measure training --cifar "$cifar" --objectives simclr --methods Shuffle Spectral Cut --first-seed 5 --seeds 8 \
    --output "$(made training)"
measure training --pairs "$pairs" --functions --first-seed 30 --seeds 5 \
    --methods Shuffle "Cut, no background" Cut --output "$(made training)"
for timed in "" "--time --seeds 3"; do # shellcheck disable=SC2086
    measure batch_sizes --pairs "$pairs" --functions $timed --output "$(made batch_sizes)"
    measure rivals_training --pairs "$pairs" --functions $timed --output "$(made rivals_training)"
done
measure choices --functions --output "$(made choices)"
"$python" -m batchcut train --recipe pairs --data functions seed=60 -o "$work/functions"
measure example_batches "$work/functions" --output "$(made example_batches)"
measure finetune --pairs 4800 --first-seed 80 --methods shuffled planned --output "$(made finetune)"
measure effective_size "$pairs" --output "$(made effective_size)"
measure step_signal "$pairs" functions --pretrained --pairs 1600 --output "$(made step_signal)"
measure gain "$pairs" functions --batch-sizes 32 --seeds 70 --methods Shuffle "Cut, no background" Cut \
    --output "$(made gain)" --picture docs/img/gain.svg
measure best_plans "$pairs" --samples 1024 --sizes 256 512 --sweeps 2 --cases 20 --seeds 75 --output "$(made best_plans)"
measure background functions --states "$work" --samples 2048 --output "$(made background)"
measure background "$pairs" --states "$work" --seeds 70 --samples 2048 --output "$(made background)" \
    --picture docs/img/background.svg
measure tables
