"""`fibatchd`, whose leases last so many seconds instead of 15: a test need not wait so long for a take-over.

python short_lease.py SECONDS serve --config …
"""

import sys

from fibatchd.__main__ import main
from fibatchd.scheduler import lease
from fibatchd.store import leases

if __name__ == "__main__":
    leases.LEASE_S = float(sys.argv.pop(1))
    lease.GRACE_S = leases.LEASE_S / 3
    lease.TAKE_OVER_S = leases.LEASE_S / 5
    sys.exit(main())
