#!/bin/sh
# Runs every fuzz target for a share of the time, and closes with one line,
# "fuzz: N passed, N failed, N skipped", of targets; before it how many inputs
# they were given. The canary passes if it fails as it
# must: a file is written, and the file fails again. Called by `make smoke`.
#
#   smoke.sh ENGINE SECONDS      ENGINE is own or libfuzzer
# MUSTER_TEST_SEED in the environment is the seed, 1 by default.
set -u
engine=$1
seconds=$2
seed=${MUSTER_TEST_SEED:-1}
driver=build/own/fuzz
mkdir -p build/failures build/log

targets=$($driver --list)
count=$(echo "$targets" | wc -l)
share=$((seconds / (count - 1))) # the canary ends when it is found
[ "$share" -ge 1 ] || share=1
canary_max=60                    # it takes part of a second; a busy machine more

run_own() {
  $driver --run "$1" "$time" "corpus/$1" build/failures "$seed"
}

# The first folder takes what libFuzzer finds, so that the tree stays clean.
run_libfuzzer() {
  mkdir -p "build/found/$1"
  FUZZ_TARGET=$1 build/libfuzzer/fuzz -max_total_time="$time" -max_len=4200 -seed="$seed" \
    -timeout=10 -artifact_prefix="build/failures/$1-" \
    "build/found/$1" "corpus/$1"
}

rm -f build/log/*.log
passed=0
failed=0
for target in $targets; do
  log=build/log/$target.log
  time=$share
  [ "$target" != canary ] || time=$canary_max
  "run_$engine" "$target" > "$log" 2>&1
  status=$?
  # Both engines name the file last in a line of their log.
  input=$(sed -n -e 's/.*input written to //p' \
    -e 's/.*Test unit written to //p' "$log" | tail -n 1)
  if [ "$target" = canary ]; then
    if [ "$status" -ne 0 ] && [ -f "$input" ] &&
       ! $driver --replay canary "$input" > /dev/null 2>&1; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "FAIL canary: its bug was not found in $time s, see tests/fuzz/$log"
    fi
  elif [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $target: $input"
    grep -m 3 -e 'must hold' -e 'ERROR' -e 'runtime error' -e 'assertion' \
      -e 'no corpus' "$log"
    echo "  log: tests/fuzz/$log"
    [ -z "$input" ] ||
      echo "  replay: make -C tests/fuzz replay TARGET=$target INPUT=$input"
  fi
done
inputs=$(cat build/log/*.log | awk '
  /^Done [0-9]+ runs / { sum += $2 }
  match($0, /: [0-9]+ inputs, /) { sum += substr($0, RSTART + 2) + 0 }
  END {
    text = sprintf("%d", sum)
    while (text ~ /[0-9][0-9][0-9][0-9](,|$)/) sub(/[0-9][0-9][0-9](,|$)/, ",&", text)
    print text
  }')
echo "beside: $inputs inputs"
echo "fuzz: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
