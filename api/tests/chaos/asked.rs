//! What the booking system is asked.

use serde_json::Value;

use super::behaviour::Behaviour;
use super::wire::Message;

/// A request that arrived.
#[derive(Clone)]
pub struct Asked {
    pub method: String,
    /// The last part of the path.
    pub reference: String,
    pub key: String,
    pub body: Value,
}

impl Asked {
    pub fn new(message: &Message) -> Self {
        let mut words = message.start_line.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let reference = words.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
        let key = message.header("idempotency-key").unwrap_or_default().to_owned();
        Self { method, reference, key, body: serde_json::from_slice(&message.body).unwrap_or_default() }
    }

    pub fn text(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().to_owned()
    }

    pub fn is_scarce(&self) -> bool {
        self.text("item_code").starts_with("SCARCE")
    }

    /// What every send leaves in doubt until its key is forgotten.
    pub fn is_to_be_forgotten(&self) -> bool {
        self.text("item_code").starts_with("FORGOTTEN")
    }

    /// What is sold out is never done, however often it is asked for; what is scarce is refused at times.
    pub fn is_refused(&self, behaviour: Behaviour) -> bool {
        match self.method.as_str() {
            "POST" => self.text("item_code").starts_with("SOLD-OUT") || (self.is_scarce() && behaviour.is_out_of_stock),
            "PATCH" => self.body["quantity"] == 13,
            _ => false,
        }
    }
}
