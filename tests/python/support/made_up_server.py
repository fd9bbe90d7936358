"""The files of /proc and /sys of a made-up server, and the same without what is wrong with it."""

import os
from pathlib import Path

from penstock.files.sheet.system import System

PCI = "/sys/devices/pci0000:80"
NVME = f"{PCI}/0000:81:00.0"
NIC = "/sys/devices/pci0000:00/0000:01:00.0"
VIRTUAL = "/sys/devices/virtual/block"

QUEUE = {
    "scheduler": "[none] mq-deadline",
    "nr_requests": "1023",
    "rotational": "0",
    "write_cache": "write through",
    "max_sectors_kb": "128",
    "read_ahead_kb": "128",
    "logical_block_size": "512",
    "physical_block_size": "4096",
    "minimum_io_size": "4096",
    "optimal_io_size": "0",
}


def queue(folder: str) -> dict[str, str]:
    return {f"{folder}/queue/{name}": f"{value}\n" for name, value in QUEUE.items()}


def server_files() -> dict[str, str]:
    """Two sockets. LVM on dm-crypt on an md that rebuilds, on partitions of an NVMe drive and a disk."""
    drive, disk = f"{NVME}/nvme/nvme0/nvme0n1", f"{PCI}/host0/target0/sda"
    files = {
        f"{VIRTUAL}/dm-1/dev": "253:1\n",
        f"{VIRTUAL}/dm-1/size": "8000\n",
        f"{VIRTUAL}/dm-1/dm/name": "vg-data\n",
        f"{VIRTUAL}/dm-1/dm/uuid": "LVM-abc\n",
        f"{VIRTUAL}/dm-0/dev": "253:0\n",
        f"{VIRTUAL}/dm-0/dm/uuid": "CRYPT-LUKS2-abc\n",
        f"{VIRTUAL}/md0/dev": "9:0\n",
        f"{VIRTUAL}/md0/md/level": "raid6\n",
        f"{VIRTUAL}/md0/md/array_state": "clean\n",
        f"{VIRTUAL}/md0/md/sync_action": "recover\n",
        f"{VIRTUAL}/md0/md/degraded": "1\n",
        f"{VIRTUAL}/md0/md/chunk_size": "524288\n",
        f"{VIRTUAL}/md0/md/stripe_cache_size": "256\n",
        f"{drive}/dev": "259:0\n",
        f"{drive}/size": "7501476528\n",
        f"{drive}/uevent": "MAJOR=259\nMINOR=0\nDEVNAME=nvme0n1\nDEVTYPE=disk\n",
        f"{drive}/nvme0n1p1/dev": "259:1\n",
        f"{drive}/nvme0n1p1/partition": "1\n",
        f"{NVME}/nvme/nvme0/model": "Example SSD 4TB     \n",
        f"{NVME}/nvme/nvme0/firmware_rev": "1.2\n",
        f"{NVME}/numa_node": "1\n",
        f"{NVME}/current_link_speed": "8.0 GT/s PCIe\n",
        f"{NVME}/current_link_width": "4\n",
        f"{NVME}/max_link_speed": "16.0 GT/s PCIe\n",
        f"{NVME}/max_link_width": "4\n",
        f"{disk}/dev": "8:0\n",
        f"{disk}/sda1/dev": "8:1\n",
        f"{disk}/sda1/partition": "1\n",
        f"{PCI}/host0/target0/model": "EXAMPLE HDD\n",
        "/proc/sys/kernel/osrelease": "6.1.0-test\n",
        "/proc/sys/vm/dirty_ratio": "20\n",
        "/proc/sys/vm/dirty_bytes": "0\n",
        "/proc/sys/kernel/numa_balancing": "1\n",
        "/proc/sys/kernel/io_uring_disabled": "2\n",
        "/proc/meminfo": "MemTotal:  263856336 kB\nSwapTotal: 0 kB\n",
        "/proc/cpuinfo": "processor : 0\nmodel name : Example\nflags : fpu\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n",
        "/sys/devices/system/node/node0/cpulist": "0-15\n",
        "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 131928168 kB\n",
        "/sys/devices/system/node/node1/cpulist": "16-31\n",
        "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 131928168 kB\n",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
        "/proc/self/cgroup": "0::/a/b\n",
        "/sys/fs/cgroup/memory.max": "max\n",
        "/sys/fs/cgroup/a/b/memory.max": "17179869184\n",
        "/sys/fs/cgroup/a/memory.max": "8589934592\n",
        "/sys/fs/cgroup/a/b/cpu.max": "50000 100000\n",
        "/sys/fs/cgroup/a/io.max": "259:0 rbps=max wbps=104857600 riops=max wiops=max\n",
        f"{NIC}/net/eth0/speed": "100000\n",
        f"{NIC}/net/eth0/mtu": "1500\n",
        f"{NIC}/net/eth0/operstate": "up\n",
        f"{NIC}/net/eth0/queues/rx-0/x": "",
        f"{NIC}/net/eth0/queues/rx-1/x": "",
        f"{NIC}/net/eth0/queues/tx-0/x": "",
        f"{NIC}/numa_node": "0\n",
        f"{NIC}/msi_irqs/45": "msi\n",
        f"{NIC}/msi_irqs/46": "msi\n",
        "/proc/irq/45/smp_affinity_list": "0-3\n",
        "/proc/irq/46/smp_affinity_list": "4\n",
        "/sys/bus/pci/drivers/example/x": "",
    }
    for folder in (f"{VIRTUAL}/dm-1", f"{VIRTUAL}/dm-0", f"{VIRTUAL}/md0", drive):
        files |= queue(folder)
    return files | queue(disk) | {f"{disk}/queue/rotational": "1\n"}


SERVER_LINKS = {
    "/sys/dev/block/253:1": f"{VIRTUAL}/dm-1",
    f"{VIRTUAL}/dm-1/slaves/dm-0": f"{VIRTUAL}/dm-0",
    f"{VIRTUAL}/dm-0/slaves/md0": f"{VIRTUAL}/md0",
    f"{VIRTUAL}/md0/slaves/nvme0n1p1": f"{NVME}/nvme/nvme0/nvme0n1/nvme0n1p1",
    f"{VIRTUAL}/md0/slaves/sda1": f"{PCI}/host0/target0/sda/sda1",
    f"{NVME}/nvme/nvme0/nvme0n1/device": f"{NVME}/nvme/nvme0",
    f"{NVME}/nvme/nvme0/device": NVME,
    f"{PCI}/host0/target0/sda/device": f"{PCI}/host0/target0",
    "/sys/block/nvme0n1": f"{NVME}/nvme/nvme0/nvme0n1",
    "/sys/block/dm-1": f"{VIRTUAL}/dm-1",
    "/sys/class/net/eth0": f"{NIC}/net/eth0",
    f"{NIC}/net/eth0/device": NIC,
    f"{NIC}/driver": "/sys/bus/pci/drivers/example",
}


def make_tree(root: Path, files: dict[str, str], links: dict[str, str]) -> System:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, to in links.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(root / to.lstrip("/"), path.parent))
    return System(root)


MENDED = {
    f"{VIRTUAL}/md0/md/sync_action": "idle\n",
    f"{VIRTUAL}/md0/md/degraded": "0\n",
    f"{VIRTUAL}/md0/md/stripe_cache_size": "8192\n",
    f"{NVME}/current_link_speed": "16.0 GT/s PCIe\n",
    f"{PCI}/host0/target0/sda/queue/write_cache": "write back\n",
    "/proc/sys/vm/dirty_bytes": "2147483648\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/a/io.max": "",
    f"{NIC}/net/eth0/mtu": "9000\n",
    f"{NIC}/numa_node": "1\n",
}

# Of /proc/self/limits, and of `ethtool -g eth0`.
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             15000                15000                processes
Max open files            {files}              20000                files
Max locked memory         8388608              unlimited            bytes
"""
RINGS = """\
Ring parameters for eth0:
Pre-set maximums:
RX:             8192
RX Mini:        n/a
TX:             8192
Current hardware settings:
RX:             {now}
RX Mini:        n/a
TX:             512
"""
