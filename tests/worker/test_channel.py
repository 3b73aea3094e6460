"""Control channels: whole messages, descriptors beside them, and an end that is noticed."""

import errno
import os
import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from worker_proc.channel import Channel, ChannelClosed
from worker_proc.messages import Booted, Cancel, Close, Died, Fork, ForkSpec, Ready, StopAccepting

Pair = tuple[Channel, Channel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    ours, theirs = pair
    sent = [StopAccepting("SIGTERM", True), Close(5), Cancel(1, 2, "why"), Booted(), Ready()]
    for message in sent:
        ours.send(message)
    assert [theirs.receive() for _ in sent] == sent


def test_what_is_no_text_arrives_legibly(pair: Pair) -> None:
    ours, theirs = pair
    ours.send(Died("OSError: no such file: caf\udce9"))
    assert theirs.receive() == Died("OSError: no such file: caf\\udce9")


def test_descriptors_arrive_close_on_exec(pair: Pair) -> None:
    ours, theirs = pair
    reader, writer = os.pipe()
    spec = ForkSpec(slot=1, role="worker", title="t", offset=0, lanes=1, claim_no=1, generation=1, names=["a"])
    ours.send(Fork(spec), [writer])
    message, fds = theirs.receive_with_fds()
    assert message == Fork(spec)
    assert [os.get_inheritable(fd) for fd in fds] == [False]
    os.write(fds[0], b"x")
    assert os.read(reader, 1) == b"x"
    for fd in (reader, writer, *fds):
        os.close(fd)


@pytest.mark.parametrize("number", [errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS])
def test_a_kernel_without_room_is_like_a_reader_that_is_busy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "send_fds", refuse)
    with pytest.raises(BlockingIOError):
        pair[0].send(Ready(), [0])


def test_a_large_message_is_one_packet(pair: Pair) -> None:
    ours, theirs = pair
    names = [f"a_rather_long_name_of_a_job_{number}" for number in range(256)]
    spec = ForkSpec(slot=1, role="worker", title="t", offset=0, lanes=1, claim_no=1, generation=1, names=names)
    ours.send(Fork(spec))
    assert theirs.receive() == Fork(spec)


def test_the_other_end_gone(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive()
    with pytest.raises(ChannelClosed):
        ours.send(Ready())


def test_a_non_blocking_end_with_nothing_to_read(pair: Pair) -> None:
    ours, _ = pair
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        ours.receive()
