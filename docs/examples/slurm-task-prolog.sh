#!/bin/sh
# Slurm runs this before each task (TaskProlog in slurm.conf), and puts what it prints into the task's environment.
echo "export PENSTOCK_LAB_MOUNT=/run/penstock-lab/job-$SLURM_JOB_ID/client-1/mount"
