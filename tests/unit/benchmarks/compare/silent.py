"""A process that never says anything."""

import time

if __name__ == "__main__":
    time.sleep(60)
