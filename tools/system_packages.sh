#!/usr/bin/env bash
# Installs the Debian packages that are named, or those that the tests and the testbed need, where they are missing.
# As root it uses apt-get; otherwise, or without apt-get, it says what to install and ends with 1.
set -euo pipefail

testbed=(
    buildah conntrack containerd containernetworking-plugins debootstrap etcd-server fuse3 iproute2
    iptables mount nftables openjdk-17-jre-headless procps runc util-linux xfsprogs
)
packages=("$@")
((${#packages[@]})) || packages=("${testbed[@]}")

if ! command -v dpkg-query >/dev/null; then
    echo "system packages: this is no Debian; see to it that these are there: ${packages[*]}"
    exit 0
fi
missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $state == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    echo "system packages: missing are ${missing[*]}" >&2
    echo "system packages: as root, run  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
echo "system packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Services that a package brings (containerd, etcd) are not wanted on the machine itself, only their programs.
policy=/usr/sbin/policy-rc.d
if ! [[ -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$log" "$policy"' EXIT
fi
install() { apt-get install --yes --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
if ! install; then
    # The lists of a fresh machine are empty or old.
    if ! { apt-get update && install; } >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "system packages: apt-get could not install ${missing[*]}" >&2
        exit 1
    fi
fi
