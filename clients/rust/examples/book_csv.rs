//! Books every row of a CSV file. May be killed at any moment and run again: each row ends as exactly one booking.
//!
//!     book_csv http://127.0.0.1:8000 reservations.csv [FOLDER FOR THE INTENTS]

use reservation_client::{Client, FileStore, NewReservation};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(base_url), Some(rows)) = (arguments.next(), arguments.next()) else {
        return Err("usage: book_csv URL ROWS.csv [FOLDER]".into());
    };
    let intents = arguments.next().unwrap_or_else(|| "intents".to_owned());
    let mut client = Client::new(&base_url, FileStore::new(intents)?)?;
    if let Ok(token) = std::env::var("RESERVATION_TOKEN") {
        client = client.token(token)?;
    }

    // A plain file: no quoted fields.
    for line in std::fs::read_to_string(rows)?.lines().skip(1) {
        let [order, item_code, quantity, reserved_by] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(format!("not four fields: {line}").into());
        };
        let wanted = NewReservation {
            item_code: item_code.to_owned(),
            quantity: quantity.parse()?,
            reserved_by: reserved_by.to_owned(),
            ..Default::default()
        };
        // The order number names the intent: not the row's position, which changes when a row is added.
        let answer = client.create(&format!("order-{order}"), &wanted).await?;
        println!("{order} {}", answer.reservation.id);
    }
    Ok(())
}
