"""Parts as somebody outside minitensor writes them, and the tests that they work like our own."""
