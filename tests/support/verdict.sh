# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# verdict.sh - counts what a test that is a script checks; to be sourced
n=0 bad=0

# verdict WHAT IS WANTED
verdict()
{
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok: $1"
	else
		bad=$((bad + 1))
		printf 'not ok: %s\n--- wanted\n%s\n--- it is\n%s\n' "$1" "$3" "$2"
	fi
}

# The end of the script: fails if one of the checks did.
verdict_end()
{
	echo "$n things checked, $bad bad"
	[ "$bad" = 0 ]
}
