"""What planloop is measured against. Each module is a program that runs in its own interpreter."""
