"""Mooncake's Transfer Engine between two hosts, with buffers in host memory: single writes of several sizes, a batch, and
writes from several threads at once, first in one direction, then in the other.

  mooncake_write.py receive OWN_ADDRESS                  waits for one peer
  mooncake_write.py send OWN_ADDRESS PEER_ADDRESS

Prints one line per step; exits with 1 if a write failed or bytes were wrong. Mooncake takes TCP where it finds no device that it
may use, and its log alone says so ("Found 0 HCAs").
"""

import ctypes
import hashlib
import mmap
import os
import socket
import sys
import threading
import time

from mooncake.engine import TransferEngine

PORT = 18603
BYTES = 32 << 20
HALF = BYTES // 2
SIZES = [1, 4096, 65_537, 5_000_001, HALF]
BATCH, PIECE = 64, 100_003
THREADS, ROUNDS, BLOCK = 4, 10, 1 << 20


class Peer:
    """This host's engine and buffer, and those of the other host, which it hears of over TCP."""

    def __init__(self, role, own, other):
        self.engine, self.failed = TransferEngine(), False
        if self.engine.initialize(own, "P2PHANDSHAKE", "rdma", "mrc0") != 0:
            sys.exit("the engine does not start")
        self.memory = mmap.mmap(-1, BYTES)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        if self.engine.register_memory(self.address, BYTES) != 0:
            sys.exit("the memory cannot be registered")
        self.socket = socket.create_server(("", PORT)).accept()[0] if role == "receive" else connect(other)
        self.lines = self.socket.makefile("r")
        self.tell(own, self.engine.get_rpc_port(), self.address)
        host, port, address = self.lines.readline().split()
        self.name, self.remote = f"{host}:{port}", int(address)

    def tell(self, *words):
        self.socket.sendall((" ".join(map(str, words)) + "\n").encode())

    def digest(self, offset, size):
        return hashlib.sha1(self.memory[offset:offset + size]).hexdigest()

    def fill(self, size):
        self.memory[:size] = os.urandom(size)

    def step(self, what, result, size):
        """The first bytes of our lower half must be those of the peer's upper half."""
        self.tell(size, self.digest(0, size))
        right = result == 0 and self.lines.readline().strip() == "same"
        self.failed |= not right
        print(f"{what} {'ok' if right else f'FAIL ({result})'}", flush=True)

    def write(self, offset, size):
        return self.engine.transfer_sync_write(self.name, self.address + offset, self.remote + HALF + offset, size)

    def send(self):
        for size in SIZES:
            self.fill(size)
            self.step(f"{size} bytes,", self.write(0, size), size)
        self.fill(BATCH * PIECE)
        from_, to = ([base + n * PIECE for n in range(BATCH)] for base in (self.address, self.remote + HALF))
        result = self.engine.batch_transfer_sync_write(self.name, from_, to, [PIECE] * BATCH)
        self.step(f"a batch of {BATCH},", result, BATCH * PIECE)
        self.fill(THREADS * BLOCK)
        results = []
        work = [threading.Thread(target=lambda n=n: results.extend(self.write(n * BLOCK, BLOCK) for _ in range(ROUNDS)))
                for n in range(THREADS)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        self.step(f"{THREADS} threads,", int(any(results) or len(results) != THREADS * ROUNDS), THREADS * BLOCK)
        self.tell("done")

    def receive(self):
        while (words := self.lines.readline().split()) and words != ["done"]:
            self.tell("same" if self.digest(HALF, int(words[0])) == words[1] else "different")


def connect(other):
    for _ in range(100):
        try:
            return socket.create_connection((other, PORT))
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nobody listens at {other}")


def main():
    role, own, *other = sys.argv[1:]
    peer = Peer(role, own, *(other or [None]))
    for part in [peer.send, peer.receive] if role == "send" else [peer.receive, peer.send]:
        part()
    peer.engine.unregister_memory(peer.address)
    sys.exit(int(peer.failed))


main()
