# A throw-away copy of the Debian root $root with the packages of the folder $packages in /packages, for a script that has a network
# and mounts of its own (unshare -m -n). Sets $work, $at (the copy) and `inside COMMAND...`, which runs there.
ip link set lo up
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" "$work/root"
at=$work/root
mount -t proc proc "$at/proc"
mount -t sysfs sysfs "$at/sys"
mount -t tmpfs tmpfs "$at/run"
mount -t tmpfs tmpfs "$at/dev"
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9"; do
    set -- $node
    mknod -m 666 "$at/dev/$1" c "$2" "$3"
done
mkdir "$at/packages" "$at/run/netns"
cp "$packages"/*.deb "$at/packages"
# As on an installed Debian; debootstrap leaves it out.
echo "127.0.0.1 localhost" >"$at/etc/hosts"
inside() { chroot "$at" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
