# The calls a network-config becomes. `nic` chooses the card that the calls after it configure.
nic() { # NAME MAC: the card with that address; without an address the one of that name
    dev=
    for card in /sys/class/net/*; do
        [ -e "$card/device" ] && read -r mac <"$card/address" || continue
        if [ "$mac" = "$2" ] || { [ -z "$2" ] && [ "${card##*/}" = "$1" ]; }; then dev=${card##*/}; fi
    done
    if [ -n "$dev" ]; then ip link set "$dev" up; else echo "No network card $1 ($2)."; fi
}

mtu() { [ -z "$dev" ] || ip link set "$dev" mtu "$1"; }

no_router_advertisements() { [ -z "$dev" ] || echo 0 >"/proc/sys/net/ipv6/conf/$dev/accept_ra"; }

address() { [ -z "$dev" ] || ip address add "$1" dev "$dev"; }

route() { # TO VIA METRIC: a gateway outside the card's own networks is taken to be on the wire
    [ -n "$dev" ] || return
    case $1$2 in *:*) family=-6 ;; *) family=-4 ;; esac
    to=$1 via=$2 metric=$3
    set -- "$to" ${via:+via "$via"} dev "$dev" ${metric:+metric "$metric"}
    ip $family route replace "$@" 2>/dev/null && return
    ip $family route replace "$via" dev "$dev"
    ip $family route replace "$@"
}

resolver() { resolv_conf "nameserver $1"; }

search_domains() { resolv_conf "search $1"; }

resolv_conf() { # the first line of a start replaces the file
    [ -n "$resolving" ] || : >/etc/resolv.conf
    export resolving=yes
    echo "$1" >>/etc/resolv.conf
}

dhcp() {
    [ -z "$dev" ] || udhcpc -i "$dev" -s /usr/share/udhcpc/default.script -x "hostname:$(hostname)" -S -b -t 5 -T 2
}

dhcp_everywhere() {
    for device in /sys/class/net/*/device; do
        [ -e "$device" ] || continue
        card=${device%/device}
        nic "${card##*/}" "" && dhcp
    done
}
