# Docker's engine and Compose, from the system's own packages; from Docker's where the system has none. What is there
# already is fine. Ends with 64 and a sentence for the customer when it cannot be done.
set -u
output_file=$(mktemp)
lookup_output_file=$output_file.sources # what was said while the packages were looked up
: >"$lookup_output_file"
trap 'rm -f "$output_file" "$lookup_output_file"' EXIT

refuse() {
    printf 'refused: %s\n' "$*"
    exit 64
}
have() { command -v "$1" >/dev/null 2>&1; }
answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
composes() { docker compose version >/dev/null 2>&1 || have docker-compose; }

# Runs a package manager; while somebody else's holds its lock, waits.
retry_while_locked() {
    tries=0
    until "$@" >"$output_file" 2>&1; do
        cat "$output_file"
        grep -qiE 'could not get lock|unable to lock|is held by process|is locked|waiting for .*lock' "$output_file" || return 1
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || refuse 'Another program in the machine has been installing software for ten minutes.' \
            'Try again when it has ended.'
        sleep 10
    done
    cat "$output_file"
}

# $1 is what to do about it where the packages are not known; what was said last is in $output_file.
refuse_failed_install() {
    network_errors='resolv|unreachable|connect|timed out|failed to fetch|could not download|temporary error'
    if grep -qiE "$network_errors" "$output_file" "$lookup_output_file"; then
        refuse "The machine could not fetch the packages: look at its network, its DNS and its package sources."
    elif grep -qiE 'no space left|enough free space|at least .* more space|disk full' "$output_file"; then
        refuse "The machine's disk does not have enough room for Docker."
    elif grep -qiE 'unable to locate|no installation candidate|no match for|unable to select|not found' "$output_file"; then
        refuse "$1"
    fi
    exit 1
}

candidate() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }

with_apt() {
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    retry_while_locked dpkg --configure -a # what a power cut left half-done
    retry_while_locked apt-get -q -o DPkg::Lock::Timeout=60 update
    cp "$output_file" "$lookup_output_file"
    packages=
    if ! have docker; then
        packages=docker.io
        for each in docker-cli apparmor; do candidate "$each" && packages="$packages $each"; done
    fi
    if ! composes; then
        for each in docker-compose-plugin docker-compose-v2 docker-compose; do
            [ "$each" != docker-compose-plugin ] || have docker || continue
            candidate "$each" && packages="$packages $each" && break
        done
    fi
    retry_while_locked apt-get -qy --no-install-recommends -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=60 \
        install ca-certificates iptables $packages || refuse_failed_install "$unknown"
}

with_dnf() {
    case "$ID" in fedora | rhel) of=$ID ;; *) of=centos ;; esac
    if ! have docker; then
        curl -fsSL "https://download.docker.com/linux/$of/docker-ce.repo" -o /etc/yum.repos.d/docker-ce.repo \
            >"$output_file" 2>&1 || { cat "$output_file" && refuse 'The machine could not reach download.docker.com.'; }
        retry_while_locked dnf -qy install docker-ce docker-ce-cli containerd.io docker-compose-plugin || refuse_failed_install "$unknown"
    else
        retry_while_locked dnf -qy install docker-compose-plugin || retry_while_locked dnf -qy install docker-compose || refuse_failed_install "$unknown"
    fi
}

with_apk() {
    retry_while_locked apk add --update-cache docker docker-cli-compose || refuse_failed_install \
        "This system's package sources have no Docker. Turn Alpine's community repository on in /etc/apk/repositories."
}

with_zypper() { retry_while_locked zypper -nq install docker docker-compose || refuse_failed_install "$unknown"; }

with_pacman() { retry_while_locked pacman -Sy --noconfirm --needed docker docker-compose || refuse_failed_install "$unknown"; }

# From the next start on.
enabled() {
    if [ -d /run/systemd/system ]; then
        systemctl enable docker.service
    elif have rc-update; then
        rc-update add docker default
    fi >/dev/null 2>&1 || true
}

started() {
    ! answers || return 0
    if [ -d /run/systemd/system ]; then
        systemctl start docker.service
    elif have rc-service; then
        rc-service docker start
    fi
    tries=0
    until answers; do
        tries=$((tries + 1))
        [ "$tries" -lt 90 ] || return 1
        sleep 1
    done
}

if answers && composes; then
    enabled
    exit
fi
if have cloud-init; then timeout 900 cloud-init status --wait >/dev/null 2>&1; fi # the first boot uses packages too
ID=unknown PRETTY_NAME='this system'
[ ! -r /etc/os-release ] || . /etc/os-release
unknown="The package sources of $PRETTY_NAME have no Docker. Install Docker and Compose by hand and try again."
if ! have docker || ! composes; then
    if have docker && docker --version 2>/dev/null | grep -qi podman; then
        refuse 'In this machine Podman stands in the place of Docker. Remove it (podman-docker) and try again.'
    fi
    for manager in apt dnf apk zypper pacman ''; do
        [ -n "$manager" ] || refuse 'This system has none of the package managers that the panel knows (apt, dnf, apk,' \
            'zypper, pacman). Install Docker and Compose by hand and try again, or deploy an image that has one.'
        case "$manager" in apt) program=apt-get ;; *) program=$manager ;; esac
        if have "$program"; then
            "with_$manager"
            break
        fi
    done
fi
hash -r
have docker && composes || exit 1
enabled
started && exit
[ -d "/lib/modules/$(uname -r)" ] || refuse 'Docker is installed, but does not start with the kernel that runs.' \
    'Restart the machine and try again.'
if [ -d /run/systemd/system ]; then journalctl -q --no-pager -n 20 -o cat -u docker.service; fi
refuse 'Docker is installed, but does not start. Look at its log in the machine: journalctl -u docker.'
