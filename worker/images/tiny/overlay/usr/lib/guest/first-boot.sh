# The calls that make a machine somebody's. `account` chooses whom the calls after it mean.
name() {
    echo "$1" >/etc/hostname
    hostname "$1"
    printf '127.0.0.1 localhost\n127.0.1.1 %s %s\n::1 localhost\n' "$1" "${1%%.*}" >/etc/hosts
}

new_instance() { # ID [keep_accounts]: false on a machine that is this instance already; else nobody of an earlier one
    # can sign in, unless the accounts are kept
    [ "$1" != "$(cat $state/instance-id 2>/dev/null)" ] || return 1
    instance=$1
    rm -rf $state/instance-id $state/script* $state/boot-finished /etc/dropbear/ed25519
    [ "$2" != keep_accounts ] || return 0
    rm -f /etc/localtime /etc/timezone
    rm -f /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys
    sed -i 's/:!*/:!/' /etc/shadow
}

timezone() {
    if [ ! -e "/usr/share/zoneinfo/$1" ]; then echo "No time zone $1."; return; fi
    ln -sf "/usr/share/zoneinfo/$1" /etc/localtime
    echo "$1" >/etc/timezone
}

account() { # NAME GECOS HOME SHELL, made if it is not there
    case $1 in "" | *[!a-z0-9_-]*) echo "No user can be called $1."; who=; return ;; esac
    who=$1 home=${3:-/home/$1} shell=$4
    if entry=$(grep "^$who:" /etc/passwd); then
        entry=${entry%:*}
        home=${entry##*:}
        return
    fi
    [ -n "$shell" ] && [ -x "$shell" ] || shell=/bin/sh
    uid=1000
    while grep -q "^[^:]*:[^:]*:$uid:" /etc/passwd; do uid=$((uid + 1)); done
    echo "$who:x:$uid:$uid:$2:$home:$shell" >>/etc/passwd
    echo "$who:*:19700:0:99999:7:::" >>/etc/shadow
    echo "$who:x:$uid:" >>/etc/group
    mkdir -p "$home"
    chown "$who:$who" "$home"
}

member() { [ -z "$who" ] || sed -i "/^$1:/{s/[^:]\$/&,/;s/\$/$who/}" /etc/group; }

key() {
    [ -n "$who" ] || return
    mkdir -p "$home/.ssh"
    printf '%s\n' "$1" >>"$home/.ssh/authorized_keys"
    chmod 700 "$home/.ssh"
    chmod 600 "$home/.ssh/authorized_keys"
    chown -R "$who:" "$home/.ssh"
}

password() { # NAME PASSWORD hash|text
    if [ "$3" = hash ]; then printf '%s\n' "$1:$2" | chpasswd -e; else printf '%s\n' "$1:$2" | chpasswd; fi
}

own_password() { [ -z "$who" ] || password "$who" "$1" "$2"; }

lock() { [ -z "$who" ] || sed -i "s/^$who:!*/$who:!/" /etc/shadow; }

sign_in() { # PASSWORDS DISABLE_ROOT, both true or false: what ssh accepts
    [ "$1" = true ] && passwords= || passwords=-s
    [ "$2" = true ] && root=-w || root=
    echo "$passwords $root" >/etc/dropbear/refuse
}

file() { # PATH PERMISSIONS OWNER APPEND ENCODING CONTENT
    mkdir -p "$(dirname "$1")"
    [ "$4" = true ] || : >"$1"
    case $5 in
    gz*64) printf %s "$6" | base64 -d | gunzip ;;
    b*64) printf %s "$6" | base64 -d ;;
    *) printf %s "$6" ;;
    esac >>"$1"
    chmod "$2" "$1"
    chown "$3" "$1"
}

run() {
    [ -e $state/script ] || script '#!/bin/sh'
    printf '\n%s\n' "$1" >>$state/script
}

script() { # run by `late`
    printf %s "$1" >$state/script
    chmod 700 $state/script
}

trouble() { echo "Seed: $1."; }

ready() { echo "$instance" >$state/instance-id; }
