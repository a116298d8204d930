"""What the binary runs."""

from fibatchd.__main__ import main

main()
