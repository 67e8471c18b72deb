#!/bin/sh
# Checks slug.sh. Run it with: sh test.sh
cd "$(dirname "$0")" || exit 2
. ./slug.sh

cases=0
failures=0

check() {
    cases=$((cases + 1))
    got=$(slug "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    \"$1\" -> $got"
    else
        failures=$((failures + 1))
        echo "FAIL  \"$1\": expected $2, got $got"
    fi
}

check "Hello World" "hello-world"
check "release 2.0" "release-2-0"
check "already-a-slug" "already-a-slug"
check "Bread & Butter" "bread-butter"
check "  wide   gaps  " "wide-gaps"
check "What now?" "what-now"

if [ "$failures" -gt 0 ]; then
    echo "$failures of $cases cases failed"
    exit 1
fi
echo "all $cases cases pass"
