"""Run as a process: the parent of a worker that hangs. Prints the worker's number."""

import time

from minitensor.runtime import Worker

if __name__ == "__main__":
    with Worker.start("tests.run.runtime.faulty") as worker:
        worker.send({"hang": True})
        print(worker.receive(30)["pid"], flush=True)
        time.sleep(60)
