"""One of several detectors' ends of ZeroMQ, as a process that can be killed: python dealer.py JSON.

It binds or connects PUSH at `endpoint`, prints "ready", and waits for a line on stdin. With `bind` it binds
after that line, because another process may still have the endpoint. It sends the start, the images of
`numbers` with a pause of `pause_s` after each, and the end, and prints each number when it is on its way.
Pixels tell their frame, and their element.
"""

import json
import sys
import time
from typing import Any

import cbor2
import numpy
import zmq
from detector_stream import multi_dimensional

SHAPE = (16, 24)


def pixels_of(number: int, element: int = 0) -> numpy.ndarray[Any, Any]:
    return numpy.full(SHAPE, 1 + 3 * number + element, "uint16")


def messages(plan: dict[str, Any]) -> list[dict[str, Any]]:
    identity = {"series_id": 1, "series_unique_id": plan["series"]}
    start = {
        "type": "start",
        **identity,
        "channels": ["a"],
        "image_dtype": "uint16",
        "image_size_y": SHAPE[0],
        "image_size_x": SHAPE[1],
        "number_of_images": plan["frames"],
    }
    images = [
        {
            "type": "image",
            **identity,
            "image_id": number,
            "data": {"a": multi_dimensional(pixels_of(number, plan.get("element", 0)))},
        }
        for number in plan["numbers"]
    ]
    return [start, *images, {"type": "end", **identity}]


def main() -> None:
    plan = json.loads(sys.argv[1])
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.setsockopt(zmq.SNDTIMEO, 20_000)
        socket.setsockopt(zmq.LINGER, 10_000)
        if not plan["bind"]:
            socket.connect(plan["endpoint"])
        print("ready", flush=True)
        sys.stdin.readline()
        if plan["bind"]:
            socket.bind(plan["endpoint"])
        for message in messages(plan):
            socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))
            print(message.get("image_id", message["type"]), flush=True)
            time.sleep(plan["pause_s"])


if __name__ == "__main__":
    main()
