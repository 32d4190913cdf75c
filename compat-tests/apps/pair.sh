#!/bin/sh
# pair.sh [--under COMMAND] [--at HOST] VIP_PINGPONG [OPTION]...: server and client of a ping-pong on
# this host, which the client calls HOST, or localhost. The options are the client's; COMMAND, with its
# options, runs each of the two. Fails if either does.
under=
host=localhost
if [ "$1" = --under ]; then
	under=$2
	shift 2
fi
if [ "$1" = --at ]; then
	host=$2
	shift 2
fi
program=$1
shift
nic= # both use the same
for option; do
	case $option in --nic=*) nic=$option ;; esac
done

# shellcheck disable=SC2086 # the command's options are words of their own
$under "$program" --timeout=60 $nic >/dev/null &
server=$!
failed=0
# shellcheck disable=SC2086
$under "$program" --timeout=60 "$@" "$host" || failed=1 # waits for the server by itself
# A server whose client has failed may wait for another one.
[ "$failed" = 0 ] || kill "$server" 2>/dev/null
wait "$server" || failed=1
exit "$failed"
