"""NCCL's own InfiniBand transport between two hosts, without a GPU: calls the functions of `ncclNetIb` in an unmodified
libnccl.so.2, which NCCL itself calls for every pair of ranks, with buffers in host memory. The table is not exported; its
address comes from the symbol table of the file.

  nccl_net.py LIBNCCL receive             waits for one sender
  nccl_net.py LIBNCCL send ADDRESS        connects, sends messages of several sizes

Prints one line per size; exits with 1 if bytes were wrong or a request failed.
"""

import ctypes
import os
import socket
import struct
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

PORT = 18601
HANDLE_SIZE = 128
HOST_MEMORY = 1
TAG = 7
SIZES = [0, 8, 4096, 300_001, 8 << 20]
ROUNDS = 4
PATIENCE = 30

# Places in the table; the same from version 11 of the interface on.
INIT, DEVICES, LISTEN, CONNECT, ACCEPT, REG, DEREG, ISEND, IRECV, TEST = 1, 2, 4, 5, 6, 7, 9, 10, 11, 13
CLOSE_SEND, CLOSE_RECV, CLOSE_LISTEN, FINALIZE = 14, 15, 16, 20


def symbols(path, wanted):
    """Values of local symbols of a 64-bit little-endian ELF file whose names contain one of the words."""
    with open(path, "rb") as file:
        header = file.read(64)
        offset, = struct.unpack_from("<Q", header, 40)
        size, count = struct.unpack_from("<HH", header, 58)
        file.seek(offset)
        sections = [struct.unpack("<IIQQQQIIQQ", file.read(size)) for _ in range(count)]
        table = next((section for section in sections if section[1] == 2), None)
        if table is None:
            sys.exit(f"{path} is stripped: its symbol table is needed")
        file.seek(table[4])
        entries = file.read(table[5])
        file.seek(sections[table[6]][4])
        names = file.read(sections[table[6]][5])
    found = {}
    for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", entries):
        text = names[name:names.index(b"\0", name)].decode()
        if section and text in wanted:
            found[text] = value
    return found


class Net:
    """The functions of `ncclNetIb`."""

    def __init__(self, path):
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        logger = "_Z12ncclDebugLog17ncclDebugLogLevelmPKciS1_z"
        values = symbols(path, {"ncclNetIb", "ncclGetVersion", logger})
        base = ctypes.cast(library.ncclGetVersion, c_void_p).value - values["ncclGetVersion"]
        self.table = (c_void_p * 22).from_address(base + values["ncclNetIb"])
        self.log = base + values[logger] if logger in values else None

    def call(self, function, *arguments):
        types = [c_void_p if argument is None else type(argument) for argument in arguments]
        types = [c_void_p if "CArgObject" in kind.__name__ else kind for kind in types]
        result = ctypes.CFUNCTYPE(c_int, *types)(self.table[function])(*arguments)
        if result != 0:
            sys.exit(f"function {function} of the table failed: {result}")

    def start(self):
        context, count = c_void_p(), c_int()
        # The traffic class, which is not set.
        config = (c_int * 16)(-1)
        self.call(INIT, byref(context), c_uint64(1), byref(config), c_void_p(self.log), None)
        self.call(DEVICES, byref(count))
        print(f"{count.value} device", flush=True)
        return context

    def until(self, attempt):
        """Calls until a pointer comes back."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if pointer := attempt():
                return pointer
        sys.exit("nothing came of it in time")

    def finish(self, request):
        done, sizes = c_int(), (c_int * 8)()

        def attempt():
            self.call(TEST, c_void_p(request), byref(done), byref(sizes))
            return done.value

        self.until(attempt)
        return sizes[0]

    def register(self, comm, buffer, size):
        handle = c_void_p()
        self.call(REG, c_void_p(comm), c_void_p(buffer), c_size_t(size), c_int(HOST_MEMORY), byref(handle))
        return handle


def pattern(size, salt):
    return bytes((salt + at * 31 + (at >> 8)) & 255 for at in range(min(size, 1 << 16))) * (size // (1 << 16) + 1)


def receive(net, context):
    handle, listening, comm, device = ctypes.create_string_buffer(HANDLE_SIZE), c_void_p(), c_void_p(), c_void_p()
    net.call(LISTEN, context, c_int(0), byref(handle), byref(listening))
    peer, _ = socket.create_server(("", PORT)).accept()
    peer.sendall(handle.raw)

    def accept():
        net.call(ACCEPT, listening, byref(comm), byref(device))
        return comm.value

    net.until(accept)
    failed = False
    for size in SIZES:
        buffer = ctypes.create_string_buffer(size + 1)
        registered = net.register(comm.value, ctypes.addressof(buffer), size + 1)
        right = 0
        for salt in range(ROUNDS):
            data, sizes = (c_void_p * 1)(ctypes.addressof(buffer)), (c_size_t * 1)(size)
            tags, handles, none = (c_int * 1)(TAG), (c_void_p * 1)(registered.value), (c_void_p * 1)()
            request = c_void_p()

            def attempt():
                net.call(IRECV, comm, c_int(1), byref(data), byref(sizes), byref(tags), byref(handles), byref(none), byref(request))
                return request.value

            received = net.finish(net.until(attempt))
            right += received == size and buffer.raw[:size] == pattern(size, salt)[:size]
        print(f"{size} bytes, {right} of {ROUNDS} {'ok' if right == ROUNDS else 'FAIL'}", flush=True)
        failed |= right != ROUNDS
        net.call(DEREG, comm, registered)
    peer.sendall(b"!")
    net.call(CLOSE_RECV, comm)
    net.call(CLOSE_LISTEN, listening)
    return failed


def send(net, context, address):
    peer = socket.create_connection((address, PORT), PATIENCE)
    handle = ctypes.create_string_buffer(peer.recv(HANDLE_SIZE, socket.MSG_WAITALL), HANDLE_SIZE)
    comm, device = c_void_p(), c_void_p()

    def connect():
        net.call(CONNECT, context, c_int(0), byref(handle), byref(comm), byref(device))
        return comm.value

    net.until(connect)
    for size in SIZES:
        buffer = ctypes.create_string_buffer(size + 1)
        registered = net.register(comm.value, ctypes.addressof(buffer), size + 1)
        for salt in range(ROUNDS):
            ctypes.memmove(buffer, pattern(size, salt), size)
            request = c_void_p()

            def attempt():
                net.call(ISEND, comm, c_void_p(ctypes.addressof(buffer)), c_size_t(size), c_int(TAG), registered, None, byref(request))
                return request.value

            net.finish(net.until(attempt))
        print(f"{size} bytes sent ok", flush=True)
        net.call(DEREG, comm, registered)
    peer.recv(1)
    net.call(CLOSE_SEND, comm)
    return False


def main():
    net = Net(sys.argv[1])
    context = net.start()
    failed = receive(net, context) if sys.argv[2] == "receive" else send(net, context, sys.argv[3])
    net.call(FINALIZE, context)
    return failed


if __name__ == "__main__":
    sys.exit(main())
