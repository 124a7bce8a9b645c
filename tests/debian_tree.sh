# A minimal Debian 12 in a directory, for tests that need a system of their own. Sourced; $system names the directory. Root and
# debootstrap are needed. The system gets the machine's package sources, registry configuration and certificates, and devices of
# its own.
tree_certificates=/etc/ssl/certs/ca-certificates.crt

# tree_make PACKAGES: from nothing; PACKAGES separated by commas, beyond the minimum
tree_make()
{
    local file
    debootstrap --variant=minbase --include="ca-certificates,$1" bookworm "$system"
    # debootstrap reaches the sources itself; what follows makes them and the registries reachable from inside.
    rm -f "$system/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.* /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/99* /etc/hosts \
        /etc/resolv.conf /etc/pip.conf /etc/npmrc $tree_certificates; do
        [ ! -f "$file" ] || install -D -m 644 "$file" "$system$file"
    done
}

tree_leave()
{
    local place
    for place in dev proc; do
        ! mountpoint -q "$system/$place" || umount -l "$system/$place"
    done
}

# Devices of its own: what runs in there as root may not reach those of the machine.
tree_enter()
{
    local name major minor
    mountpoint -q "$system/proc" || mount -t proc proc "$system/proc"
    ! mountpoint -q "$system/dev" || return 0
    mount -t tmpfs -o mode=755,size=2g tmpfs "$system/dev"
    while read -r name major minor; do
        mknod -m 666 "$system/dev/$name" c "$major" "$minor"
    done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0'
    ln -s /proc/self/fd "$system/dev/fd"
    mkdir -m 1777 "$system/dev/shm"
}

# tree_inside USER HOME COMMAND: in the system, with an empty environment
tree_inside()
{
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$2" LANG=C.UTF-8 TERM=dumb \
        NODE_EXTRA_CA_CERTS=$tree_certificates PIP_CERT=$tree_certificates \
        chroot --userspec="$1" "$system" bash -c "cd && $3" </dev/null
}
