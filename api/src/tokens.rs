//! `api token create|list|revoke`. A new token's text leaves the process once, on standard output, alone.

use entity::api_token;
use entity::database::Database;
use entity::timestamp::Timestamp;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::config::TokenCommand;

/// Does it: the text for standard output, and a note for standard error.
///
/// # Errors
/// The storage's error, or what is wrong with the command.
pub async fn run(db: &Database, command: &TokenCommand) -> Result<(String, Option<String>), Box<dyn std::error::Error>> {
    match command {
        TokenCommand::Create { account, role } => {
            let first = !api_token::any(db).await?;
            let token = new_token();
            api_token::add(db, &token, account, *role).await?;
            let note = first.then(|| {
                "This is the first token: from its next start the server is no longer open, and every request needs a token. \
                 Reservations and keys made so far belong to the account `local`: a token made with --account local keeps them."
                    .to_owned()
            });
            Ok((format!("{token}\n"), note))
        }
        TokenCommand::List => {
            let mut text = String::from("FINGERPRINT  ROLE      CREATED                   REVOKED                   ACCOUNT\n");
            for token in api_token::all(db).await? {
                let at = |ms| Timestamp::from_millis(ms).to_string();
                text.push_str(&format!(
                    "{}     {:<8}  {:<24}  {:<24}  {}\n",
                    token.fingerprint,
                    token.role,
                    at(token.created_at_ms),
                    token.revoked_at_ms.map_or_else(|| "-".into(), at),
                    token.account
                ));
            }
            Ok((text, None))
        }
        TokenCommand::Revoke { fingerprint } => match api_token::revoke(db, fingerprint).await? {
            0 => Err("no token, or more than one, has this fingerprint, or it is revoked already".into()),
            _ => Ok((String::new(), Some("revoked: running processes refuse it within 5 s".into()))),
        },
    }
}

/// 244 random bits of the operating system, in hexadecimal digits.
fn new_token() -> String {
    let random = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
    format!("rsv_{}", hex::encode(Sha256::digest(random)))
}
