# One app. The input: what to do, the project's name, and for `up` the compose file and the values of its variables, both
# in Base64. A line each, so that nothing in them is a command. The values are a file of assignments that both this shell
# and Compose read in the same way.
set -eu
umask 077
export COMPOSE_HTTP_TIMEOUT=600 # Compose gives up after a minute of silence, which a busy machine exceeds
IFS= read -r action
IFS= read -r project
dir=/opt/panel-apps/$project

compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose --ansi never -p "$project" -f "$dir/compose.yaml" "$@"
    elif command -v docker-compose >/dev/null; then
        docker-compose --ansi never -p "$project" -f "$dir/compose.yaml" "$@"
    else
        echo 'Docker Compose is not installed in this machine.'
        return 1
    fi
}

ids() { docker "$@" --filter "label=com.docker.compose.project=$project"; }

if [ "$action" = remove ]; then
    if command -v docker >/dev/null; then
        containers=$(ids ps -aq)
        [ -z "$containers" ] || { docker stop $containers && docker rm $containers; } >/dev/null
        networks=$(ids network ls -q)
        [ -z "$networks" ] || docker network rm $networks >/dev/null
    fi
    rm -f "$dir/compose.yaml" "$dir/.env" "$dir/stopped"
    rmdir "$dir" 2>/dev/null || true # other files in it are the customer's
    exit
fi
if [ "$action" = up ]; then
    mkdir -p "$dir"
    for file in compose.yaml .env; do
        IFS= read -r content
        printf %s "$content" | base64 -d >"$dir/$file.new"
        mv "$dir/$file.new" "$dir/$file"
    done
elif [ ! -e "$dir/compose.yaml" ]; then
    echo 'The files of this app are not in the machine any more. Deploy it again.'
    exit 1
fi
cd "$dir"
set -a
. ./.env
set +a
case "$action" in
up | start)
    rm -f stopped
    compose up -d --quiet-pull --remove-orphans
    ;;
restart)
    rm -f stopped
    compose restart
    ;;
stop)
    touch stopped
    compose stop
    ;;
esac
