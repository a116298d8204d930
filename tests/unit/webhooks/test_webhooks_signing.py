"""Signatures, secrets and their rotation, against the standard's own library."""

import base64
import time

import pytest
import standardwebhooks
from fibatchd_plugins.webhooks import signing
from fibatchd_plugins.webhooks.signing import MOST_ROTATED, ROTATED_S, Secret, new_secret, rotated

BODY = '{"id":"evt_1","ü":1}'.encode()


def verifies(secret, headers):
    try:
        return standardwebhooks.Webhook(secret.text).verify(BODY, headers) is not None
    except standardwebhooks.WebhookVerificationError:
        return False


def test_the_vector_that_the_standard_publishes():
    ring = (Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),)
    headers = signing.headers(ring, "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1614265330.9)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_secret_is_24_random_bytes_in_standard_base64():
    secrets = {new_secret().text for _ in range(200)}
    assert len(secrets) == 200
    for text in secrets:
        assert len(base64.b64decode(text.removeprefix("whsec_"), validate=True)) == 24
    assert any("+" in text or "/" in text for text in secrets)  # not the URL-safe alphabet


def test_signed_for_the_moment_of_the_attempt():
    secret = new_secret()
    assert verifies(secret, signing.headers((secret,), "evt_1", BODY, time.time()))
    assert not verifies(secret, signing.headers((secret,), "evt_1", BODY, time.time() - 400))
    assert not verifies(new_secret(), signing.headers((secret,), "evt_1", BODY, time.time()))


def test_a_replaced_secret_signs_along_for_a_day():
    now = time.time()
    old, new = new_secret(), new_secret()
    ring = rotated((old,), new, now - ROTATED_S + 10)
    headers = signing.headers(ring, "evt_1", BODY, now)
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert verifies(old, headers)
    assert verifies(new, headers)
    later = signing.headers(rotated((old,), new, now - ROTATED_S - 1), "evt_1", BODY, now)
    assert verifies(new, later)
    assert not verifies(old, later)


def test_rotating_again_keeps_the_first_for_its_day():
    now = 1_000_000.0
    ring = rotated((Secret("whsec_a"),), Secret("whsec_b"), now)
    ring = rotated(ring, Secret("whsec_c"), now + 10)
    assert ring == (Secret("whsec_c"), Secret("whsec_b", now + 10 + ROTATED_S), Secret("whsec_a", now + ROTATED_S))
    assert rotated(ring, Secret("whsec_d"), now + ROTATED_S + 5)[1:] == (
        Secret("whsec_c", now + 2 * ROTATED_S + 5),
        Secret("whsec_b", now + 10 + ROTATED_S),
    )


def test_rotating_without_end_keeps_few():
    ring = (new_secret(),)
    for _ in range(50):
        ring = rotated(ring, new_secret(), 0)
    assert len(ring) == 1 + MOST_ROTATED


@pytest.mark.parametrize("ring", [(Secret("whsec_a"),), (Secret("whsec_b"), Secret("whsec_a", 12.5))])
def test_a_ring_is_stored_whole(ring):
    assert signing.decode_ring(signing.encode_ring(ring)) == ring
