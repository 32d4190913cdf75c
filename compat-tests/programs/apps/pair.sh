#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pair.sh [--under COMMAND] [--at HOST] VIP_PINGPONG [OPTION]...: runs server and client of a ping-pong
# on this host. The client calls the host HOST, or localhost. The options are the client's. COMMAND,
# with its options, runs each of the two. It fails if either fails.
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
nic= # for both
for option; do
	case $option in --nic=*) nic=$option ;; esac
done
# Both start at once, and on a busy machine the server may begin to wait seconds after the request.
export VIPL_GRACE_MSEC="${VIPL_GRACE_MSEC:-60000}"

# shellcheck disable=SC2086 # the command's options are words of their own
$under "$program" $nic >/dev/null &
server=$!
failed=0
# shellcheck disable=SC2086
said=$($under "$program" "$@" "$host") || failed=1
[ -z "$said" ] || printf '%s\n' "$said"
case $failed$said in
    "0connected to "*) wait "$server" || failed=1 ;;
    # Without a client that has connected and not failed the server may wait for one for ever.
    *)
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        ;;
esac
exit "$failed"
