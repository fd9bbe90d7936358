"""A Tango device that saves the frames of a camera through a Penstock recorder."""

import threading
import time

import numpy
from tango import AttrWriteType, DevState
from tango.server import Device, attribute, command, device_property, run

from penstock.client import Series


class Camera:
    """Replace this class by your camera: images() yields one image after another."""

    shape = (256, 512)
    dtype = "uint16"

    def images(self, count: int, exposure_s: float):
        for number in range(count):
            time.sleep(exposure_s)
            yield numpy.full(self.shape, number, self.dtype)


class PenstockSaving(Device):
    address = device_property(dtype=str, default_value="127.0.0.1:9900")

    acq_nb_frames = attribute(dtype=int, access=AttrWriteType.READ_WRITE)
    acq_expo_time = attribute(dtype=float, access=AttrWriteType.READ_WRITE, unit="s")
    saving_prefix = attribute(dtype=str, access=AttrWriteType.READ_WRITE)
    saving_next_number = attribute(dtype=int, access=AttrWriteType.READ_WRITE)
    acq_status = attribute(dtype=str)
    last_image_acquired = attribute(dtype=int)
    last_image_saved = attribute(dtype=int, doc="the last frame that is safe, as are all before it")

    def init_device(self):
        super().init_device()
        self._camera = Camera()
        self._frames, self._exposure_s, self._prefix, self._next = 1, 0.01, "scan_", 0
        self._acquired, self._saved, self._problem = -1, -1, ""
        self._series = None
        self._thread = None
        self._stop = threading.Event()
        self.set_state(DevState.ON)

    def read_acq_nb_frames(self):
        return self._frames

    def write_acq_nb_frames(self, value):
        self._frames = value

    def read_acq_expo_time(self):
        return self._exposure_s

    def write_acq_expo_time(self, value):
        self._exposure_s = value

    def read_saving_prefix(self):
        return self._prefix

    def write_saving_prefix(self, value):
        self._prefix = value

    def read_saving_next_number(self):
        return self._next

    def write_saving_next_number(self, value):
        self._next = value

    def read_acq_status(self):
        if self._problem:
            return "Fault: " + self._problem
        return "Running" if self.get_state() == DevState.RUNNING else "Ready"

    def read_last_image_acquired(self):
        return self._acquired

    def read_last_image_saved(self):
        return self._saved

    @command
    def prepareAcq(self):
        """Opens the file, so that an error is reported here and not with the first frame."""
        if self.get_state() == DevState.RUNNING:
            raise RuntimeError("an acquisition is running: call stopAcq first")
        if self._series is not None:
            self._series.abandon()
        self._series = Series(
            self.address,
            dtype=self._camera.dtype,
            shape=self._camera.shape,
            frames=self._frames,
            name=f"{self._prefix}{self._next:04d}",
            metadata={"count_time": self._exposure_s, "detector_description": "camera of the Tango device"},
            connect_timeout=2,  # a Tango client waits 3 s for a command
        )
        self._next += 1
        self._acquired, self._saved, self._problem = -1, -1, ""

    @command
    def startAcq(self):
        if self._series is None:
            raise RuntimeError("no acquisition is prepared: call prepareAcq first")
        self._stop.clear()
        self.set_state(DevState.RUNNING)
        series, self._series = self._series, None
        self._thread = threading.Thread(target=self._acquire, args=(series,), daemon=True)
        self._thread.start()

    @command
    def stopAcq(self):
        """Ends the series with the frames that were sent; returns when the file is closed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _acquire(self, series):
        # From here on only this thread uses the series.
        try:
            with series:
                for image in self._camera.images(self._frames, self._exposure_s):
                    if self._stop.is_set():
                        break
                    self._acquired = series.send(image)
                    self._saved = series.safe_below - 1
            self._saved = series.safe_below - 1
            self.set_state(DevState.ON)
        except Exception as problem:
            self._problem = str(problem)
            self.set_state(DevState.FAULT)


if __name__ == "__main__":
    run((PenstockSaving,))
