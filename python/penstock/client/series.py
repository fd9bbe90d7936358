"""A series that is sent to a recorder; docs/reference/client-python.md explains all of it."""

from __future__ import annotations

import ctypes
import operator
import os
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

import numpy.typing as npt

from penstock.client import messages
from penstock.client.errors import FrameError, FramesRefusedError
from penstock.client.link import EndsWithBlock
from penstock.client.pixels import Compressed, Image, by_channel, spec_of, view_of
from penstock.client.session import Opening, Patience, Refusal, Session
from penstock.client.window import Kept, Window
from penstock.client.wire import self_described

_WHY_MAX = 500


class Series(EndsWithBlock):
    """One series, from its start message to its end. Use it with `with`.

    A Series belongs to one thread at a time; several in several threads are independent. It starts no thread:
    acknowledgements are read during its calls.

    Arrays are sent and kept where they lie. They must not change until they are acknowledged, because they
    may have to be sent again; with `copy=True` the series keeps copies. An array that can be written and is
    handed over again while it is still kept is refused.
    """

    def __init__(
        self,
        address: str,
        *,
        dtype: npt.DTypeLike,
        shape: tuple[int, ...],
        name: str,
        frames: int | None = None,
        channels: Iterable[str] = ("0",),
        series_id: int = 1,
        metadata: Mapping[str, Any] | None = None,
        user_data: Mapping[str, Any] | None = None,
        element: tuple[int, int, int] | None = None,
        sole: bool = False,
        token: str | None = None,
        program: str = "penstock.client",
        resume: bool = False,
        copy: bool = False,
        resend_bytes: int = 1 << 30,
        resend_frames: int = 65536,
        connect_timeout: float = 10.0,
        reconnect_timeout: float = 60.0,
        answer_timeout: float = 600.0,
        close_timeout: float = 600.0,
    ) -> None:
        """Connects, and starts the series.

        `address` is host:port. `shape` is (rows, columns), or (planes, rows, columns). `frames` is how many
        will come; None leaves it open. `name` names the series for ever, and the file. `metadata` has fields
        of the start message (docs/reference/stream-v2.md), `user_data` what else is to be kept. `element` is
        (rows, columns, number) of the part of the detector that this series has. `sole` says that no other
        client has frames of it: at its end the recorder waits for none that are missing. `token` is by
        default that of the environment variable PENSTOCK_TOKEN. With `resume` the series is joined if it is
        there already.

        At most `resend_bytes` of pixels in `resend_frames` frames are kept until they are acknowledged;
        send() waits beyond. Times are seconds: `connect_timeout` and `reconnect_timeout` to have a
        connection, `answer_timeout` for the answer to the start (it may take a scan of the file) and for the
        recorder to take something, `close_timeout` for the end.
        """
        self._spec = spec_of(dtype, shape)
        self._channels = tuple(channels)
        self._name, self._copy = name, copy
        if not self._channels or len(set(self._channels)) != len(self._channels):
            raise FrameError(f"channels are {list(self._channels)}; at least one is needed, and each once")
        if not 1 <= len(name.encode()) <= 256:
            raise FrameError(f"the name {name!r:.80} has {len(name.encode())} bytes; 1 to 256 are possible")
        if resend_bytes < 1 or resend_frames < 1:
            raise FrameError(
                f"resend_bytes is {resend_bytes}, resend_frames {resend_frames}; at least 1 each"
            )
        began = messages.now()
        #: The moment that start_time_ns and stop_time_ns count from, as of time.time_ns().
        self.date_ns = messages.nanoseconds(began)
        date = began.isoformat()
        token = os.environ.get("PENSTOCK_TOKEN", "") if token is None else token
        hello = {
            "type": "hello",
            "name": program,
            "client": uuid.uuid4().hex,
            "window_frames": resend_frames,
            "window_bytes": resend_bytes,
        }
        start = messages.start(
            series_id=series_id,
            name=name,
            spec=self._spec,
            channels=self._channels,
            frames=frames,
            date=date,
            metadata=metadata or {},
            user_data=messages.user_data_of(user_data, element),
        )
        self._images = messages.ImageMessages(series_id, name, self._spec, date)
        self._next_number = 0
        self._sent = 0
        self._session = Session(
            address,
            Opening(
                name,
                self_described(hello | ({"token": token} if token else {})),
                start,
                messages.end(series_id, name, sole=sole),
            ),
            Window(resend_bytes, resend_frames),
            Patience(connect_timeout, reconnect_timeout, answer_timeout, close_timeout),
            resume=resume,
        )

    def send(
        self,
        image: Image | Mapping[str, Image],
        *,
        number: SupportsIndex | None = None,
        metadata: Mapping[str, Any] | None = None,
        start_time_ns: int | None = None,
        stop_time_ns: int | None = None,
        real_time_ns: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Sends one frame; its number. By default that is one more than the last one's; it must rise.

        `image` is an array of the series' shape and type, or Compressed; with several channels a dict from
        channel to one of these. `metadata` are values of this frame. `start_time_ns` and `stop_time_ns` count
        from `date_ns`; `real_time_ns` is the exposure.

        Waits while `resend_bytes` or `resend_frames` are used up, at most `timeout` seconds: then a
        Raises ClientTimeoutError if the frame was not accepted. Also waits while the recorder accepts none,
        and while it is disconnected.
        """
        number = self._next_number if number is None else operator.index(number)
        self._check_next(number)
        images = by_channel(image, self._channels)
        views = {key: view_of(each, self._spec, key, copy=self._copy) for key, each in images.items()}
        data = {
            key: (each.encoding if isinstance(each, Compressed) else "", views[key].nbytes)
            for key, each in images.items()
        }
        times = _times(start_time_ns, stop_time_ns, real_time_ns)
        message, checksum = self._images.encode(number, data, metadata, times)
        addresses = (
            () if self._copy else tuple(_address(view) for view in views.values() if not view.readonly)
        )
        self._check_kept(number, addresses)
        size = sum(view.nbytes for view in views.values())
        self._session.make_room(size, timeout, f"frame {number} did not fit into the window")
        self._session.window.push(Kept(number, message, checksum, list(views.values()), size, addresses))
        self._next_number = number + 1
        self._sent += 1
        self._session.flush()
        return number

    def send_damaged(self, why: str, *, number: SupportsIndex | None = None) -> int:
        """Says that a frame is damaged: it has no pixels, and the file and the recorder's log say so.

        `why` is for people, up to 500 characters. `number` is as for send(), whose frames go on behind it. It
        is neither among those that were sent nor among those that were refused.
        """
        number = self._next_number if number is None else operator.index(number)
        self._check_next(number)
        message, checksum = self._images.damaged(number, why[:_WHY_MAX])
        self._session.make_room(0, None, f"frame {number} did not fit into the window")
        self._session.window.push(Kept(number, message, checksum, [], 0, (), damaged=True))
        self._next_number = number + 1
        self._session.flush()
        return number

    def _check_next(self, number: int) -> None:
        if number < self._next_number:
            raise FrameError(f"frame {number} comes after frame {self._next_number - 1}; numbers must rise")
        self._session.check_open()

    def poll(self) -> int:
        """Reads the acknowledgements that came, without waiting, as the other calls do; `safe_below`."""
        self._session.poll()
        return self.safe_below

    def wait_acknowledged(self, timeout: float | None = None) -> None:
        """Waits until all frames that were sent are acknowledged or refused. The series goes on.

        Where the recorder's chunks have several frames, the last ones are acknowledged by the end of the
        series only: there use close(), or leave the `with`.
        """
        self._session.wait_acknowledged(timeout)

    def close(self) -> None:
        """Ends the series, and waits until the recorder has closed it. Does nothing the second time.

        Raises SeriesProblemError if the recorder reports a problem, FramesRefusedError where it refused
        frames; both once the file is closed.
        """
        if self._session.over:
            return
        self._session.close()
        if self._session.refused_count:
            first = self.refused[0]
            raise FramesRefusedError(
                f"{self._session.where}: series {self._name!r}: the recorder refused "
                f"{self._session.refused_count} of {self._sent} frames; the first was frame {first.number}: "
                f"{first.text} ({first.code})"
            )

    def abandon(self) -> None:
        """Cuts the connection without ending the series, which the recorder keeps open for who resumes it."""
        self._session.abandon()

    @property
    def name(self) -> str:
        """Of the series."""
        return self._name

    @property
    def state(self) -> str:
        """What keeps the recorder from taking frames, in its own words; empty if nothing does.

        "storage full: waiting; …", for instance. Errors of calls that time out have it as well.
        """
        return self._session.state

    @property
    def sent(self) -> int:
        """Frames that send() took."""
        return self._sent

    @property
    def acknowledged(self) -> int:
        """Frames that the recorder called safe."""
        return self._session.acknowledged

    @property
    def safe_below(self) -> int:
        """Of the frames that were sent, all with a smaller number are safe or refused."""
        return self._session.safe_below

    @property
    def waiting(self) -> int:
        """Frames that are kept, as they are neither acknowledged nor refused."""
        return len(self._session.window)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of pixels of those."""
        return self._session.window.pixels_bytes

    @property
    def refused_count(self) -> int:
        """Frames that were refused; `refused` has the first thousand."""
        return self._session.refused_count

    @property
    def refused(self) -> list[Refusal]:
        """Frames that the recorder would not have, in the order of its answers; at most a thousand."""
        return self._session.refused

    @property
    def resent(self) -> int:
        """Frames that were sent another time, after a connection was lost."""
        return self._session.resent

    @property
    def reconnects(self) -> int:
        """Connections that took the place of a lost one."""
        return self._session.reconnects

    def _check_kept(self, number: int, addresses: tuple[int, ...]) -> None:
        for address in addresses:
            before = self._session.window.number_at(address)
            if before is not None:
                self._session.poll()  # it may have been acknowledged meanwhile
                before = self._session.window.number_at(address)
            if before is not None:
                raise FrameError(
                    f"frame {number} uses the memory of frame {before}, which is not acknowledged and may"
                    f" have to be sent again: create the series with copy=True, use another array, or call"
                    f" wait_acknowledged()"
                )


def _times(start_ns: int | None, stop_ns: int | None, real_ns: int | None) -> dict[str, int]:
    """Those that are known, by their names in an image message."""
    if start_ns is stop_ns is real_ns is None:
        return {}
    times = {"start_time": start_ns, "stop_time": stop_ns, "real_time": real_ns}
    return {key: value for key, value in times.items() if value is not None}


def _address(view: memoryview) -> int:
    """Of a view that can be written."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
