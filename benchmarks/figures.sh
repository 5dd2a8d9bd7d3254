#!/bin/sh
# Every measurement that a table or picture of the documents shows, one after the other: about a day on two idle cores.
# sh benchmarks/figures.sh PYTHON CIFAR PAIRS [LISTS], from the root of the checkout; LISTS: a folder of apt's lists.
# What is stored is not measured again: remove a file in benchmarks/results to measure it anew. A script that misses a
# bar, or breaks, does not keep the others from running; all such are named at the end.
set -eu
python=$1 cifar=$2 pairs=$3 lists=${4:-/var/lib/apt/lists}
results=${RESULTS:-benchmarks/results} failed=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made() { echo "$results/$1_results.json"; }
run() {
    echo "== $*"
    "$python" "$@" || failed="$failed
  $*"
}
measure() { script=$1; shift; run "benchmarks/$script.py" "$@"; }
# For a script that does not look for what is stored by itself.
once() { if test -e "$(made "$1")"; then echo "== $1 is stored"; else measure "$@"; fi; }

once selection --cifar "$cifar/cifar-100-python" --json "$(made selection)"
once overhead --cifar "$cifar/cifar-100-python" --seeds 3 --epochs 4 --json "$(made overhead)"
once scale --write "$(made scale)"
once few_centers --output "$(made few_centers)"
once batch_norm --json "$(made batch_norm)"

measure training --cifar "$cifar" --objectives simclr --methods Shuffle "Cut, no background" Cut --first-seed 40 --seeds 3 \
    --evaluate-every 0 --evaluate-epochs 2 --output "$(made training)"
measure training --cifar "$cifar" --objectives simclr sogclr --methods Shuffle Ordered Spectral Cut --first-seed 40 \
    --seeds 2 --epochs 30 --evaluate-epochs 3 --evaluate-every 0 --output "$(made training)"
measure training --cifar "$cifar" --objectives simclr --methods "Cut, no background" --first-seed 40 --seeds 2 \
    --epochs 30 --evaluate-epochs 3 --evaluate-every 0 --output "$(made training)"
measure training --cifar "$cifar" --objectives simclr --methods Shuffle Cut --first-seed 40 --seeds 2 --epochs 60 \
    --evaluate-epochs 6 --evaluate-every 0 --output "$(made training)"
last="Cut, last views alone"
measure images --cifar "$cifar" --epochs 5 --seeds 1 --variants shuffled "$last" "shuffled, 96 fresh negatives" \
    "shuffled, 96 negatives with gradient" "Cut, running statistics" --output "$(made images)"
measure images --cifar "$cifar" --seeds 3 --variants shuffled Cut "$last" "Cut, no background" --output "$(made images)"
measure images --cifar "$cifar" --first-seed 1 --seeds 2 --variants "Cut, no background, momentum 0.75" \
    "Cut, no background, momentum 0.9" --output "$(made images)"
measure images --cifar "$cifar" --first-seed 1 --seeds 1 --variants "shuffled, width 32" "Cut, width 32" \
    "shuffled, 96 negatives with gradient" "Cut, weights averaged" "Cut, fresh pass over whole images" \
    "Cut, features before the head" --output "$(made images)"
measure images --cifar "$cifar" --seeds 1 --variants "Cut, fresh pass" "Cut, plan at τ = 0.05" "Cut, plan at τ = 0.2" \
    "Cut, groups of 16" "Cut, groups of 8" "Cut, half a batch random" "Cut, 96 fresh, 15 % of the mass" \
    --output "$(made images)"
measure images --cifar "$cifar" --epochs 30 --seeds 1 --variants shuffled Cut "Cut, no background" --output "$(made images)"
measure training --pairs "$pairs" --functions --first-seed 30 --seeds 5 \
    --methods Shuffle "Cut, no background" Cut --output "$(made training)"
for script in batch_sizes rivals_training; do
    measure $script --pairs "$pairs" --functions --output "$(made $script)"
    measure $script --pairs "$pairs" --functions --time --seeds 3 --output "$(made $script)"
done
measure choices --functions --output "$(made choices)"
measure advice --pairs "$pairs" --functions --output "$(made advice)"
fine() { measure finetune --pairs 4800 --lists "$lists" --output "$(made finetune)" "$@"; }
for equal in "" "--time --seeds 2" "--equal-seconds --seeds 2"; do # shellcheck disable=SC2086
    fine --first-seed 80 --methods shuffled planned $equal
done
fine --sets functions --first-seed 80 --seeds 3 --methods "1 mined" "1 mined, planned"
fine --sets functions --first-seed 80 --seeds 2 --methods "planned, encoded first" "cached, 8 × as large" \
    "cached, 8 ×, planned"
fine --sets functions --first-seed 80 --seeds 1 --methods "not trained" "3 mined" "3 mined, planned" \
    "cached, 16 × as large" "cached, 16 ×, planned"
others() { fine "$@" --methods "1 mined" "1 mined, planned" "3 mined" "cached, 8 × as large" "cached, 8 ×, planned"; }
for equal in --time --equal-seconds; do
    fine --sets functions --first-seed 80 --seeds 1 $equal --methods "planned, encoded first"
    others --first-seed 80 --seeds 1 $equal
done
others --sets functions --first-seed 81 --seeds 1 --equal-seconds
fine --sets debian --first-seed 83 --seeds 2 --methods shuffled planned
fine --sets debian --first-seed 83 --seeds 1 --methods "not trained"
for seed in 80 83; do
    fine --sets debian --first-seed $seed --seeds 1 --methods "1 mined" "1 mined, planned" "cached, 8 × as large" \
        "cached, 8 ×, planned"
done
if ! test -e "$(made example_batches)"; then
    run -m batchcut train --recipe pairs --data functions seed=60 -o "$work/functions"
    measure example_batches "$work/functions" --output "$(made example_batches)"
fi

once effective_size "$pairs" --output "$(made effective_size)"
once best_plans "$pairs" --samples 1024 --sizes 256 512 --sweeps 2 --cases 20 --seeds 75 76 77 --output "$(made best_plans)"
measure gain "$pairs" functions --batch-sizes 16 32 64 128 --seeds 70 --methods Shuffle "Cut, no background" Cut \
    --output "$(made gain)"
measure gain "$pairs" functions --batch-sizes 16 --seeds 70 --methods Spectral --output "$(made gain)" \
    --picture docs/img/gain.svg
measure background functions --states "$work" --samples 2048 --output "$(made background)"
measure background "$pairs" --states "$work" --seeds 70 --samples 2048 --output "$(made background)" \
    --picture docs/img/background.svg
measure tables
test -z "$failed" || { echo "a bar was missed, or it broke:$failed"; exit 1; }
