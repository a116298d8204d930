"""A machine of its own: systemd as the first process of namespaces of its own, on a copy-on-write view of this machine's files.

What is done there leaves nothing here. It needs root, and the right to mount; what it does not need is a virtual machine.
"""

import contextlib
import shutil
import subprocess
from pathlib import Path

import psutil
from daemons import until

# Of systemd's own services, those that would reach through to the kernel of all, or wait for what is not here.
MASKED = "udevd udev-trigger modules-load sysctl timesyncd networkd resolved random-seed logind"
# The files of this machine below, memory above; only pseudo-devices; /sys and /proc/sys as they are, read-only.
BOOT = f"""
set -eu
tree=$1/tree; top=$tree/top
mkdir -p $tree
mount -t tmpfs -o size=8g tmpfs $tree
mkdir $tree/upper $tree/work $top
mount -t overlay -o lowerdir=/,upperdir=$tree/upper,workdir=$tree/work overlay $top
mount -t proc proc $top/proc
mount --bind $top/proc/sys $top/proc/sys
mount -o remount,ro,bind $top/proc/sys
mount -t sysfs -o ro sysfs $top/sys
mount -t cgroup2 cgroup2 $top/sys/fs/cgroup
for place in dev run tmp; do mount -t tmpfs -o mode=1777 tmpfs $top/$place; done
chmod 755 $top/dev $top/run
mkdir $top/dev/shm $top/dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts $top/dev/pts; ln -s pts/ptmx $top/dev/ptmx
for device in null zero full random urandom tty; do touch $top/dev/$device; mount --bind /dev/$device $top/dev/$device; done
touch $top/dev/console; mount --bind /dev/null $top/dev/console
mkdir $top/run/given; mount --bind $1/given $top/run/given
for unit in {MASKED}; do ln -sf /dev/null $top/etc/systemd/system/systemd-$unit.service; done
ip link set lo up
cd $top
pivot_root . mnt
umount --lazy mnt
exec chroot . env -i container=lxc PATH=$PATH /lib/systemd/systemd --unit=basic.target --log-target=journal
"""
# Its group is one below ours, which is the root of all that it sees.
GROUPED = 'mkdir "$1"; echo $$ > "$1/cgroup.procs"; shift; exec "$@"'
NAMESPACES = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]


class CannotBoot(Exception):
    """This machine's kernel, or whoever runs us, does not allow it."""


def cgroups() -> Path:
    """Where the unified hierarchy of control groups is."""
    for part in psutil.disk_partitions(all=True):
        if part.fstype == "cgroup2":
            return Path(part.mountpoint)
    raise CannotBoot("no unified hierarchy of control groups")


class Machine:
    """Runs until it is closed. What is in `given` is there in `/run/given`. Raises CannotBoot."""

    def __init__(self, folder: Path) -> None:
        self.given = folder / "given"
        self.given.mkdir()
        self._group = cgroups() / f"{folder.parent.name}-{folder.name}"
        unshare = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--propagation", "private"]
        boot = ["bash", "-c", GROUPED, "bash", str(self._group), *unshare, "bash", "-c", BOOT, "bash", str(folder)]
        self._log = (folder / "boot.log").open("w+b")
        self._process = subprocess.Popen(boot, stdout=self._log, stderr=self._log)
        try:
            until(self._is_up)
        except BaseException:
            self.close()
            raise

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            self._log.seek(0)
            raise CannotBoot(self._log.read().decode()[-300:])
        return self.run("systemctl is-active basic.target", check=False) == "active"

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a script of bash there, as root; what it printed."""
        first = psutil.Process(self._process.pid).children()
        if not first:
            return ""
        command = ["nsenter", f"--target={first[0].pid}", *NAMESPACES, "--root"]
        command += [
            "env",
            "--chdir=/",
            "-i",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "bash",
            "-ec",
            script,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode and check:
            journal = self.run("journalctl --no-pager --lines=20", check=False)
            raise AssertionError(f"{script}\n{done.stdout}{done.stderr}\n{journal}")
        return done.stdout.strip()

    def close(self) -> None:
        """End all that runs in it; its files go with its last process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children():
                child.kill()
        self._process.kill()
        self._process.wait()
        self._log.close()
        until(self._has_gone)

    def _has_gone(self) -> bool:
        for group in [*sorted(self._group.rglob("*/"), reverse=True), self._group]:
            with contextlib.suppress(OSError):  # some process of it is still ending
                group.rmdir()
        return not self._group.exists()


def is_possible() -> str:
    """Why no machine can be made here; empty where one may be tried."""
    missing = [
        name for name in ("unshare", "nsenter", "chroot", "ip", "curl", "systemctl") if shutil.which(name) is None
    ]
    return f"{missing[0]} is not installed" if missing else ""
