# The last lines of an app's containers, by their times. The input: the project's name, how many lines, and how many
# bytes at most.
set -u
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
IFS= read -r project
IFS= read -r lines
IFS= read -r bytes
found=$(docker ps -a --filter "label=com.docker.compose.project=$project" \
    --format '{{.ID}} {{.Label "com.docker.compose.service"}}' 2>&1) || { echo "$found"; exit 1; }
[ -n "$found" ] || exit 0
echo "$found" | while read -r id service; do
    docker logs --timestamps --tail "$lines" "$id" 2>&1 | tail -c "$bytes" | sed "s/^/$service /"
done | sort -s -k 2,2 | tail -n "$lines" | tail -c "$bytes"
