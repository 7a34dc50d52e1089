"""Parts as a user of minitensor writes them, and tests that they work like our own."""
