# How apps do. The input has their projects' names, a line each. The first line of the output is the guest's time, and
# then comes a line for each project, with lines for its containers behind it.
set -u
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
date -u +%Y-%m-%dT%H:%M:%SZ
docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || { echo "away"; exit; }
format='{{index .Config.Labels "com.docker.compose.service"}}|{{.State.Status}}|{{.State.ExitCode}}|{{.State.OOMKilled}}'
format=$format'|{{.RestartCount}}|{{.State.StartedAt}}|{{if .State.Health}}{{.State.Health.Status}}{{end}}'
while IFS= read -r project; do
    mark=
    [ ! -e "/opt/panel-apps/$project/stopped" ] || mark=stopped
    echo "project $project $mark"
    containers=$(docker ps -aq --filter "label=com.docker.compose.project=$project" \
        --filter label=com.docker.compose.oneoff=False) || exit 1
    [ -z "$containers" ] || docker inspect --type container --format "$format" $containers
done
