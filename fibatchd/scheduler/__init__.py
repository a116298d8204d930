"""What runs the batches' requests: whose turn it is, how many at once, when again, and how they end.

turns.py     whose turn is it (pure)           judge.py     may it run at all (pure)
retry.py     when again (pure)                 pool.py      one model: claim, start, make room
attempt.py   one request, once                 recorder.py  outcomes to the store, in groups
lease.py     staying the owner of what runs    sweeper.py   windows, owners, retention, purging
jobs.py      durable background work           pools.py     all of it together
stock.py     what is claimed ahead (pure)      demand.py    how much to claim, of whom (pure)
accounts.py  each account's limit              budgets.py   each account's quota (pure)
"""
