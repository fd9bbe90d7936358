"""Sends 20 frames and waits until the recorder says that all are in the file. Needs numpy and cbor2."""

import datetime
import socket
import struct
import sys

import cbor2
import numpy

HELLO, START, IMAGE, END, ACK, ERROR, CLOSED, BYE = range(1, 9)
TYPED_ARRAY = {"uint8": 64, "uint16": 69, "uint32": 70, "int16": 77, "int32": 78, "float32": 85}


def crc_table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [crc_table_entry(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Connection:
    def __init__(self, host: str, port: int, token: str = "") -> None:
        self.socket = socket.create_connection((host, port))
        self.sequence = 0
        hello = {"type": "hello", "name": "my program", **({"token": token} if token else {})}
        self.send(HELLO, hello)
        self.receive()  # hello, or an error with the reason

    def send(self, kind: int, message: dict, pixels: bytes = b"") -> None:
        text = cbor2.dumps(cbor2.CBORTag(55799, message))
        fields = (b"PNST", 1, kind, 0, len(text), len(pixels), self.sequence, crc32c(text), 0)
        head = struct.pack("<4sHHIIQQII20x", *fields)
        self.socket.sendall(head + struct.pack("<I", crc32c(head)) + text + pixels)
        self.sequence += 1

    def receive(self) -> dict:
        head = self.read(64)
        _, _, kind, _, size = struct.unpack_from("<4sHHII", head)
        reply = cbor2.loads(self.read(size))
        reply = reply.value if isinstance(reply, cbor2.CBORTag) else reply
        if kind == ERROR:
            raise RuntimeError(f"the recorder rejects this: {reply['message']} ({reply['code']})")
        return reply

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the connection is lost: connect again and send what is not safe")
            data += piece
        return data


host, port = sys.argv[1].rsplit(":", 1) if len(sys.argv) > 1 else ("127.0.0.1", 9900)
connection = Connection(host, int(port))
now = datetime.datetime.now(datetime.timezone.utc)
series = {"series_id": 1, "series_unique_id": now.strftime("mine-tcp-%Y%m%d-%H%M%S")}
rows, columns, count = 512, 1024, 20

connection.send(
    START,
    {
        "type": "start",
        **series,
        "arm_date": now,
        "channels": ["threshold_1"],
        "image_dtype": "uint16",
        "image_size_x": columns,
        "image_size_y": rows,
        "number_of_images": count,
        "count_time": 0.01,
        "frame_time": 0.01,
        "pixel_size_x": 75e-6,
        "pixel_size_y": 75e-6,
        "detector_description": "my own camera",
        "sensor_material": "Si",
        "sensor_thickness": 450e-6,
        "incident_wavelength": 1.0,
    },
)
for number in range(count):
    frame = numpy.random.poisson(3, (rows, columns)).astype("uint16")
    place = cbor2.CBORTag(TYPED_ARRAY["uint16"], [0, frame.nbytes])  # offset and bytes in the pixel part
    image = {"type": "image", **series, "image_id": number}
    image["data"] = {"threshold_1": cbor2.CBORTag(40, [[rows, columns], place])}
    connection.send(IMAGE, image, frame.tobytes())
connection.send(END, {"type": "end", **series})

reply = connection.receive()
while reply["type"] != "closed":
    if reply["type"] == "ack":
        print(f"frames below {reply['safe_below']} are safe")
    reply = connection.receive()
print("recorded", "without a problem" if reply["problem"] is None else f"with a problem: {reply['problem']}")
connection.send(BYE, {"type": "bye"})
