#!/bin/sh
# Slurm runs this as root after a job has ended, however it ended (Epilog in slurm.conf).
exec penstock lab down "job-$SLURM_JOB_ID"
