"""Books ten rows of a CSV file with each language's example program, killed at a random moment and run again: ten bookings.

python kill_csv.py [TIMES] [LANGUAGE...]
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from helpers import LANGUAGES, command
from service import Service

# Three rows make the booking system slow or break, so that kills also meet requests under way.
ITEMS = ["ROOM-101", "ROOM-102", "SLOW-1", "ROOM-103", "DROP", "ROOM-104", "ROOM-105", "ERROR", "ROOM-106", "ROOM-107"]


def book(arguments: list[str], kill_after: float | None) -> bool:
    """Whether it was killed; one that fails by itself raises."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    try:
        code = process.wait(kill_after if kill_after is not None else 120)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code not in (0, -signal.SIGKILL):
        raise AssertionError(f"exit code {code}")
    return code != 0


def round_of(service: Service, language: str, number: int, longest: float) -> tuple[int, float]:
    """Kills until a run ends by itself; returns the number of kills and how long the last run took."""
    with tempfile.TemporaryDirectory(prefix="csv.") as folder:
        caller = f"{language}-{number}"
        rows = Path(folder, "reservations.csv")
        lines = [f"{order},{item},1,{caller}" for order, item in enumerate(ITEMS, 1)]
        rows.write_text("\n".join(["order,item_code,quantity,reserved_by", *lines]) + "\n")
        arguments = [*command(language, "book_csv"), service.url, str(rows), f"{folder}/intents"]
        kills = 0
        while longest and book(arguments, random.uniform(0, longest)):
            kills += 1
        began = time.monotonic()
        assert not book(arguments, None)
        took = time.monotonic() - began
        booked = sorted(booking["item_code"] for booking in service.bookings(caller))
        assert booked == sorted(ITEMS), f"{caller}: {len(booked)} bookings: {booked}"
        return kills, took


def kill(service: Service, language: str, times: int) -> str:
    _, longest = round_of(service, language, 0, 0)
    kills = rounds = 0
    while kills < times:
        rounds += 1
        kills += round_of(service, language, rounds, longest)[0]
    return f"{language}: killed {kills} times in {rounds} rounds, ten bookings each"


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    languages = sys.argv[2:] or LANGUAGES
    os.environ.pop("RESERVATION_TOKEN", None)
    with Service() as service, ThreadPoolExecutor(len(languages)) as pool:
        for line in pool.map(lambda language: kill(service, language, times), languages):
            print(line)
    print(f"{len(languages)} passed, 0 failed")


if __name__ == "__main__":
    main()
