//! The scenarios of docs/try-it.md.

use std::time::Duration;

use reservation_client::{Answer, ChangeReservation, Client, Error, FileStore, NewReservation};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [url, folder] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else { return Err("usage: try_it URL FOLDER".into()) };
    let client = |seconds| -> Result<Client, Box<dyn std::error::Error>> {
        let client = Client::new(url, FileStore::new(folder)?)?;
        Ok(client.attempt_timeout(Duration::from_secs(2))?.deadline(Duration::from_secs(seconds)))
    };
    let room = NewReservation { item_code: "ROOM-101".into(), quantity: 1, reserved_by: "taro".into(), ..Default::default() };
    let of = |item_code: &str| NewReservation { item_code: item_code.into(), ..room.clone() };

    let first = client(30)?.create("order-1", &room).await?;
    let again = client(30)?.create("order-1", &room).await?;
    println!("booked once: {}", first.reservation.id == again.reservation.id);

    let slow = client(30)?.create("order-2", &of("SLOW-3")).await?;
    println!("slow: several attempts {}, replayed {}", slow.attempts > 1, slow.replayed);

    if let Err(Error::Rejected { problem, .. }) = client(30)?.create("order-3", &of("SOLD-OUT")).await {
        println!("rejected: {}", problem.code);
    }
    if let Err(Error::NeedsCorrection { problem, .. }) =
        client(30)?.create("order-4", &NewReservation { quantity: 0, ..room.clone() }).await
    {
        println!("needs correction: {}", problem.errors[0].pointer);
    }
    let mended = client(30)?.create("order-4", &room).await?;
    println!("mended under the same key: {}", text(&mended)?);

    let lost = client(30)?.create("order-6", &of("DROP")).await?;
    println!("lost on the way, found: {}", text(&lost)?);

    let later = client(30)?.respond_async(true).create("order-7", &of("SLOW-3")).await?;
    println!("not waited for, asked again: {}", text(&later)?);

    if let Err(Error::OutcomeUnknown { problem: Some(problem), .. }) = client(3)?.create("order-5", &of("BUSY")).await {
        println!("not known yet: {}", problem.code);
    }
    if client(30)?.look_up("order-5").await?.is_none() {
        println!("looked up order-5: nothing booked");
    }
    println!("another item under order-5: {}", text(&client(30)?.create("order-5", &room).await?)?);
    if let Err(Error::IntentMismatch { .. }) = client(30)?.create("order-1", &of("ROOM-102")).await {
        println!("another request under order-1: not sent");
    }

    let (id, etag) = (&first.reservation.id, first.etag.as_deref().unwrap_or_default());
    let quantity = |quantity| ChangeReservation { quantity: Some(quantity), ..Default::default() };
    let changed = client(30)?.change("change-1", id, &quantity(2), etag).await?;
    println!("changed: quantity {}", changed.reservation.quantity);
    if let Err(Error::NeedsCorrection { problem, .. }) = client(30)?.change("change-2", id, &quantity(3), etag).await {
        println!("decided on an old version: {}", problem.code);
    }
    client(30)?.cancel(id).await?;
    println!("then: {}", text(&client(30)?.get(id).await?)?);
    Ok(())
}

/// The status as it stands in the answer.
fn text(answer: &Answer) -> Result<String, serde_json::Error> {
    serde_json::to_value(answer.reservation.status).map(|status| status.as_str().unwrap_or_default().to_owned())
}
