#!/bin/sh
# systemctl of a simulated host. It hands its arguments to the host's service manager, which lives in the lab's process, and shows what
# that answers: one file for the request, three for the answer.
root=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
cd "$root/run/systemctl" 2>/dev/null || {
	echo "Failed to connect to bus: the host $root is not running" >&2
	exit 1
}
umask 077
rm -f "$$.out" "$$.err" "$$.rc"
printf '%s\n' "$@" >"$$.new" && mv "$$.new" "$$.req" || exit 1
trap 'rm -f "$$.req" "$$.out" "$$.err" "$$.rc"' EXIT
tries=0
until [ -e "$$.rc" ]; do
	if ! kill -0 "$(cat pid 2>/dev/null)" 2>/dev/null; then
		echo "Failed to connect to bus: the host $root is not running" >&2
		exit 1
	fi
	tries=$((tries + 1))
	if [ "$tries" -gt 1800 ]; then
		echo "Failed to wait for response: no answer from the host $root in 90 seconds" >&2
		exit 1
	fi
	sleep 0.05
done
cat "$$.out"
cat "$$.err" >&2
exit "$(cat "$$.rc")"
