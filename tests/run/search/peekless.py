"""Run as a process: a server that cannot see that a child has ended before it waits for it."""

from minitensor.search.runner import attempt, server

if __name__ == "__main__":
    attempt._CAN_PEEK = False
    server.main()
