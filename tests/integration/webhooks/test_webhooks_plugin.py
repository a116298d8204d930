"""The plugin keeps what every plugin promises the daemon."""

from fibatchd_plugins import webhooks

from fibatchd.testing import check_plugin


async def test_it_keeps_what_plugins_promise():
    await check_plugin(webhooks, "webhooks")
