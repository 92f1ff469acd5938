#!/bin/bash
# Build a Redis image without a registry, from the Debian packages installed on this host.
#
#   chaos_test/image.sh [TAG]          default: redlock/redis:local
#
# Needs a container engine, and: apt-get install -y redis-server redis-tools busybox-static
# The image holds redis-server, redis-cli, redis-sentinel, the libraries that they load, and busybox.
set -euo pipefail

tag=${1:-redlock/redis:local}

die() { echo "image.sh: $*" >&2; exit 1; }

command -v docker >/dev/null || die "no docker command: install a container engine, e.g. apt-get install -y docker.io"
docker version >/dev/null 2>&1 || die "no container engine answers: start dockerd, or set DOCKER_HOST"

server=$(command -v redis-server) && cli=$(command -v redis-cli) ||
  die "no redis-server or no redis-cli: apt-get install -y redis-server redis-tools busybox-static"
busybox=$(command -v busybox) || die "no busybox: apt-get install -y busybox-static"
if ldd "$busybox" >/dev/null 2>&1; then
  die "$busybox is linked dynamically: apt-get install -y busybox-static"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/rootfs
mkdir -p "$root"/{bin,usr/bin,etc,data,tmp,dev,proc,sys,lib64,usr/lib}
chmod 1777 "$root/tmp"

# one file under four names: it looks at how it was called
cp -L "$server" "$root/usr/bin/redis-server"
for name in redis-sentinel redis-check-rdb redis-check-aof; do
  ln -s redis-server "$root/usr/bin/$name"
done
cp -L "$cli" "$root/usr/bin/redis-cli"

cp -L "$busybox" "$root/bin/busybox"
for name in sh ls cat sleep kill ps date env ip ping nc mkdir rm cp chmod chown tail grep sed; do
  ln -s busybox "$root/bin/$name"
done

# libraries: what ldd prints, kept at the paths that ldd prints
{ ldd "$server"; ldd "$cli"; } |
  awk '/=> \//{print $3} /^\t\/lib/{print $1}' | sort -u |
  while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done

printf 'root:x:0:0:root:/:/bin/sh\nredis:x:999:999::/data:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nredis:x:999:\n' >"$root/etc/group"

tar --numeric-owner --owner=0 --group=0 --sort=name --mtime=@0 -C "$root" -c . |
  docker import \
    --change 'EXPOSE 6379/tcp' --change 'EXPOSE 26379/tcp' \
    --change 'WORKDIR /data' --change 'VOLUME /data' \
    --change 'ENV PATH=/usr/bin:/bin' \
    --change 'CMD ["redis-server","--bind","0.0.0.0","--protected-mode","no","--save",""]' \
    - "$tag" >/dev/null

echo "image.sh: built $tag ($("$server" --version | awk '{print $3}'))"
