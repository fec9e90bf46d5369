//! One operation, told as JSON on standard input, its outcome as JSON on standard output. The cases in ../../cases run it.

use std::time::Duration;

use reservation_client::{Client, Error, FileStore};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order: Value = serde_json::from_reader(std::io::stdin())?;
    let text = |name: &str| order[name].as_str().unwrap_or_default();
    let seconds = |name: &str| order[name].as_f64().map(Duration::from_secs_f64);

    let store = match FileStore::new(text("store")) {
        Ok(store) => store,
        Err(error) => {
            println!("{}", json!({"result": "store-failed", "message": error.to_string()}));
            return Ok(());
        }
    };
    let make = || {
        let client = Client::new(text("base_url"), store)?
            .deadline(seconds("deadline").unwrap_or_default())
            .attempt_timeout(seconds("attempt_timeout").unwrap_or_default())?
            .pause(seconds("pause").unwrap_or_default())?
            .keep_for(seconds("keep_for").unwrap_or(Duration::from_secs(72000)))?
            .respond_async(order["respond_async"] == true);
        if let Some(token) = order["token"].as_str() { client.token(token) } else { Ok(client) }
    };
    let client = match make() {
        Ok(client) => client,
        Err(error @ Error::Setting { .. }) => {
            println!("{}", json!({"result": "wrong-setting", "message": error.to_string()}));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };

    let outcome = match text("operation") {
        "create" => client.create(text("intent"), &serde_json::from_value(order["body"].clone())?).await.map(Some),
        "change" => client.change(text("intent"), text("id"), &change(&order["body"]), text("if_match")).await.map(Some),
        "look-up" => match client.look_up(text("intent")).await {
            Ok(None) => {
                println!("{}", json!({"result": "nothing"}));
                return Ok(());
            }
            found => found,
        },
        _ => client.cancel(text("id")).await.map(|()| None),
    };
    let outcome = match outcome {
        Ok(None) => json!({"result": "done"}),
        Ok(Some(answer)) => json!({
            "result": "done",
            "id": answer.reservation.id,
            "quantity": answer.reservation.quantity,
            "etag": answer.etag,
            "replayed": answer.replayed,
            "attempts": answer.attempts,
        }),
        Err(error) => json!({
            "result": name(&error).ok_or_else(|| error.to_string())?,
            "intent": error.intent(),
            "code": error.problem().map(|problem| &problem.code),
            "attempts": error.attempts(),
            "message": error.to_string(),
        }),
    };
    println!("{outcome}");
    Ok(())
}

fn change(body: &Value) -> reservation_client::ChangeReservation {
    let quantity = body["quantity"].as_i64().and_then(|quantity| quantity.try_into().ok());
    let note = body.get("note").map(|note| note.as_str().map(str::to_owned));
    reservation_client::ChangeReservation { quantity, note, ..Default::default() }
}

fn name(error: &Error) -> Option<&'static str> {
    match error {
        Error::Rejected { .. } => Some("rejected"),
        Error::NeedsCorrection { .. } => Some("needs-correction"),
        Error::KeyReused { .. } => Some("key-reused"),
        Error::OutcomeUnknown { .. } => Some("unknown"),
        Error::IntentMismatch { .. } => Some("intent-mismatch"),
        Error::Store { source, .. } if source.kind() == std::io::ErrorKind::InvalidData => Some("damaged"),
        Error::Store { .. } => Some("store-failed"),
        _ => None,
    }
}
