"""Run as a process: a worker that does what a request says, which may be its last."""

import os
import signal
import subprocess
import sys
import time

from minitensor.runtime import Parent


def main():
    with Parent.connected() as parent:
        for request in parent.requests():
            answer(parent, request)


def answer(parent, request):
    match request:
        case {"echo": value}:
            print("printed by mistake", flush=True)
            parent.send({"echo": value})
        case {"variables": names}:
            parent.send({"values": [os.environ.get(name) for name in names]})
        case {"raise": text}:
            raise RuntimeError(text)
        case {"exit": status}:
            sys.exit(status)
        case {"signal": number}:
            os.kill(os.getpid(), number)
            time.sleep(60)
        case {"write": text}:
            parent._channel.sendall(text.encode())
            os._exit(0)
        case {"close": _}:
            parent._channel.close()
            time.sleep(60)
        case {"start": _}:
            started = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
            )
            parent.send({"pid": started.pid})
        case {"hang": _}:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            parent.send({"pid": os.getpid()})
            time.sleep(60)


if __name__ == "__main__":
    main()
