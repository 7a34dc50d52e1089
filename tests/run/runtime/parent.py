"""Run as a process: the parent of a worker that hangs. Prints the worker's number."""

import signal
import time

from minitensor.runtime import Worker

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if started in the background
    with Worker.start("tests.run.runtime.faulty") as worker:
        worker.send({"hang": True})
        print(worker.receive(30)["pid"], flush=True)
        time.sleep(60)
