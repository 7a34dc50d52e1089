"""A process that never replies."""

import time

if __name__ == "__main__":
    time.sleep(60)
