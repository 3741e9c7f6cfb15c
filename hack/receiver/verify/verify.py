#!/usr/bin/env python3
"""Verify a webhook delivery: python3 verify.py HEADER < BODY, with the signing secret in WEBHOOK_SECRET.

Exits with status 0 if the delivery is authentic, else with 1 and the reason. With a folder in WEBHOOK_EVENTS it stores
each event there once, and prints "repeated" for one that is stored already.
"""

import hashlib
import hmac
import json
import os
import re
import sys
import tempfile
import time


def verify(header: str, body: bytes, secret: str, tolerance: int = 300) -> None:
    """Raise ValueError unless header (Service-Signature) signs exactly body, the raw bytes before any parsing."""
    timestamp, signatures = None, []
    if not secret:
        raise ValueError("no secret")
    if len(header) > 4096:
        raise ValueError("header too long")
    for element in header.split(","):
        name, equals, value = element.partition("=")
        if not equals:
            raise ValueError("malformed header")
        if name == "t":
            if timestamp is not None or not re.fullmatch(r"0|[1-9][0-9]{0,17}", value):
                raise ValueError("malformed timestamp")
            timestamp = value
        elif name == "v1" and re.fullmatch(r"[0-9A-Fa-f]{64}", value):
            signatures.append(value.lower())  # other schemes are ignored
    if timestamp is None:
        raise ValueError("no timestamp")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise ValueError("timestamp too far from now")
    expected = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    # During a rotation there are two signatures; one match is enough.
    if not any([hmac.compare_digest(expected, signature) for signature in signatures]):
        raise ValueError("no signature matches this secret and body")


def store(body: bytes, folder: str) -> bool:
    """Store an event under its dedupe_key and report whether it is new. Verify the body first."""
    key = json.loads(body)["dedupe_key"]
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(body)
        file.flush()
        try:  # A link fails if the name exists, whichever process made it.
            os.link(file.name, os.path.join(folder, hashlib.sha256(key.encode()).hexdigest()))
        except FileExistsError:
            return False
    return True


if __name__ == "__main__":
    body = sys.stdin.buffer.read()
    try:
        verify(sys.argv[1], body, os.environ.get("WEBHOOK_SECRET", ""))
    except ValueError as refused:
        sys.exit(f"refused: {refused}")
    events = os.environ.get("WEBHOOK_EVENTS")
    print("repeated" if events and not store(body, events) else "verified")
