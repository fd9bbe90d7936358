"""The Python client, unpaced: client_sender.py ADDRESS COLUMNS FRAMES."""

import json
import sys
import time

import numpy as np

from penstock.client import Series


def main() -> None:
    address, columns, frames = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    images = [np.full((512, columns), value, np.uint16) for value in range(16)]
    for image in images:
        image.flags.writeable = False  # the same ones again and again
    series = Series(address, dtype="uint16", shape=(512, columns), name="python-client")
    begun = time.monotonic()
    for number in range(frames):
        series.send(images[number % len(images)])
    series.close()
    print(json.dumps({"seconds": time.monotonic() - begun, "acknowledged": series.acknowledged}))


if __name__ == "__main__":
    main()
