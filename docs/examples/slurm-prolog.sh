#!/bin/sh
# Slurm runs this as root before a job starts (Prolog in slurm.conf, with PrologFlags=Alloc): a storage system for
# this job alone, on memory of its node.
set -e
name="job-$SLURM_JOB_ID"
penstock lab up moosefs --name "$name" --disks ram:512MiB
chown "$SLURM_JOB_USER" "/run/penstock-lab/$name/client-1/mount"
