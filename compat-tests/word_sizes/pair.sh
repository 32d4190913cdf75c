#!/bin/sh
# pair.sh SERVER CALLER NIC: runs one talk program against another.
name=words.$$
"$1" serve "$name" "$3" &
server=$!
failed=0
"$2" call "$name" "$3" || failed=1
[ "$failed" = 0 ] || kill "$server" 2>/dev/null
wait "$server" || failed=1
exit "$failed"
