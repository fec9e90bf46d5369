"""Books every row of a CSV file. May be killed at any moment and run again: each row ends as exactly one booking.

python book_csv.py http://127.0.0.1:8000 reservations.csv [FOLDER FOR THE INTENTS]
"""

import csv
import os
import sys

from reservation_client import Client, FileStore, NewReservation


def main(base_url: str, rows: str, intents: str = "intents") -> None:
    with (
        Client(base_url, FileStore(intents), token=os.environ.get("RESERVATION_TOKEN")) as client,
        open(rows, newline="") as file,
    ):
        for row in csv.DictReader(file):
            # The order number names the intent: not the row's position, which changes when a row is added.
            wanted = NewReservation(item_code=row["item_code"], quantity=int(row["quantity"]), reserved_by=row["reserved_by"])
            answer = client.create(f"order-{row['order']}", wanted)
            print(row["order"], answer.reservation["id"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
