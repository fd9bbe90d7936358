"""The commands below `penstock bench`."""

from penstock.cli.bench.frames import bench_application
from penstock.cli.bench.metadata import metadata_command
from penstock.cli.bench.network import network_command
from penstock.cli.bench.stream import hdf5_command, stream_command
from penstock.cli.words import EXIT_CODES_OF_RUNS, examples

__all__ = ["bench_application"]

bench_application.command(
    "stream",
    epilog=examples(
        "penstock bench stream /data --threads 2 --size 8GiB",
        "penstock bench stream /data --threads 4 --shared --segments 256 --size 1GiB --transfer 1MiB",
        "penstock bench stream /data --transfer 1MiB --buffered --sync end --dry-run",
        "penstock bench stream /data --ranks 4 --backend mpiio --shared --collective --hint cb_nodes=2",
        "penstock bench stream /data --backend hdf5 --size 8GiB",
        exit_codes=EXIT_CODES_OF_RUNS,
    ),
)(stream_command)
bench_application.command(
    "hdf5",
    epilog=examples(
        "penstock bench hdf5 /data --size 8GiB --chunk 1MiB",
        "penstock bench hdf5 /data --deflate 1 --content compressible --ratio 4",
        "penstock bench hdf5 /data --ranks 4 --shared --collective",
        exit_codes=EXIT_CODES_OF_RUNS,
    ),
)(hdf5_command)
bench_application.command(
    "metadata",
    epilog=examples(
        "penstock bench metadata /data --items 10000 --threads 4",
        "penstock bench metadata /data --items 10 --depth 5 --branch 5 --iterations 5 --dry-run",
        "penstock bench metadata /data --threads 8 --shared --shift 1 --only files --size 4KiB",
        "penstock bench metadata /data --ranks 4 --threads 2 --shift 2",
        exit_codes=EXIT_CODES_OF_RUNS,
    ),
)(metadata_command)
bench_application.command(
    "network",
    short_help="Measure the network between two machines.",
    epilog=examples(
        "penstock bench network --local",
        "penstock bench network --listen eth1 --token-file token.txt",
        "penstock bench network 10.1.2.3 --token-file token.txt --streams 4 --link 100Gb",
    ),
)(network_command)
