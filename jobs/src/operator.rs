//! The operator's tool: `jobs keys list|show|release|resolve`. Works while everything runs; every change is guarded by state and attempt.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Subcommand;
use entity::attempt_journal::{self, PastEntry};
use entity::database::Database;
use entity::idempotency_key::{Record, State};
use entity::key_scope::{KeyDigest, Operation};
use entity::key_state::KeyState;
use entity::lifecycle::{self, Effect, Finalized, KeyFilter};
use entity::operator_action::{self, OperatorAction, PastAction};
use entity::reservation::Reservation;
use entity::store_error::StoreError;
use entity::timestamp::Timestamp;
use migration::terminal::printable;

use crate::answer;
use crate::booking::shown::Shown;
use crate::booking::{Booking, is_booking_id};
use crate::boot_clock::millis;
use crate::config::duration;
use crate::settle::{SettleSettings, booked};

/// Entries of the journal that `keys show` prints, the newest.
const JOURNAL_SHOWN: i64 = 200;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// List keys, oldest first; one line a key
    List {
        /// Only of this state: in_progress, completed, released or outcome_unknown
        #[arg(long, value_parser = state)]
        state: Option<KeyState>,
        /// Only of this account
        #[arg(long)]
        account: Option<String>,
        /// Only keys made at least this long ago, such as 10m
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        older_than: Option<Duration>,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: u64,
    },
    /// Show one key
    Show(Which),
    /// Release an outcome_unknown key: "not booked", the same request may run again
    Release {
        /// The key
        #[command(flatten)]
        which: Which,
        /// Why, for the audit
        #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
        reason: String,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Resolve an outcome_unknown key: booked (with its booking id) or not booked
    Resolve {
        /// The key
        #[command(flatten)]
        which: Which,
        /// It is booked, under this id of the booking system (else say --not-booked)
        #[arg(long, value_name = "ID", value_parser = booking_id, conflicts_with = "not_booked", required_unless_present = "not_booked")]
        booking_id: Option<String>,
        /// It is not booked
        #[arg(long)]
        not_booked: bool,
        /// Why, for the audit
        #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
        reason: String,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Names a key: by its reference (for a creation the reservation's id), or by account, operation and key.
#[derive(Debug, Clone, clap::Args)]
pub struct Which {
    /// The reference, as `keys list` shows it; with --account the key itself
    pub key: String,
    /// Account whose key it is
    #[arg(long)]
    pub account: Option<String>,
    /// createReservation or changeReservation
    #[arg(long, default_value = "createReservation", value_parser = operation)]
    pub operation: Operation,
}

/// Why the tool did nothing.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// No such key.
    #[error("there is no such key")]
    NotFound,
    /// No such reference; it may be a key, which is one within its account only.
    #[error("there is no such reference; a key needs its --account")]
    NoReference,
    /// Only an unknown outcome can be resolved.
    #[error("the key is {0}; only outcome_unknown can be released or resolved")]
    NotUnknown(KeyState),
    /// It moved between reading and writing.
    #[error("the key has moved meanwhile, or the release job is asking just now; look at it again")]
    Moved,
    /// The request of the key cannot be read.
    #[error(transparent)]
    Unreadable(#[from] answer::UnreadableRequest),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn state(name: &str) -> Result<KeyState, String> {
    KeyState::from_name(name).ok_or_else(|| "one of in_progress, completed, released, outcome_unknown".into())
}

fn booking_id(text: &str) -> Result<String, String> {
    if is_booking_id(text) {
        Ok(text.to_owned())
    } else {
        Err("an id is 1 to 255 characters, not blank, without control characters".into())
    }
}

fn operation(name: &str) -> Result<Operation, String> {
    Operation::from_name(name).ok_or_else(|| "createReservation, changeReservation or cancelReservation".into())
}

/// Does it; the text for standard output.
///
/// # Errors
/// [`OperatorError`]; nothing has changed then.
pub async fn run(db: &Database, command: &KeysCommand, settings: &SettleSettings) -> Result<String, OperatorError> {
    match command {
        KeysCommand::List { state, account, older_than, limit } => {
            let older_than_ms = older_than.map(millis);
            let filter = KeyFilter { state: *state, account: account.clone(), older_than_ms, limit: *limit };
            let mut text =
                String::from("REFERENCE                             STATE            ATTEMPT  AGE_S  OPERATION          ACCOUNT\n");
            for key in lifecycle::list(db, &filter).await? {
                let _ = writeln!(
                    text,
                    "{}  {:<15}  {:>7}  {:>5}  {:<17}  {}",
                    key.reference,
                    key.key_state(),
                    key.attempt,
                    (key.now_ms - key.created_at_ms) / 1000,
                    key.operation.as_str(),
                    printable(&key.account)
                );
            }
            Ok(text)
        }
        KeysCommand::Show(which) => {
            let key = find(db, which).await?;
            let journal = attempt_journal::of_reference(db, &key.reference, JOURNAL_SHOWN).await?;
            let actions = operator_action::of_reference(db, &key.reference).await?;
            Ok(show(&key) + &show_history(&journal, &actions))
        }
        KeysCommand::Release { which, reason, dry_run } => resolve(db, which, None, reason, *dry_run, settings).await,
        KeysCommand::Resolve { which, booking_id, not_booked: _, reason, dry_run } => {
            resolve(db, which, booking_id.as_deref(), reason, *dry_run, settings).await
        }
    }
}

async fn find(db: &Database, which: &Which) -> Result<Record, OperatorError> {
    match &which.account {
        Some(account) => lifecycle::find(db, &KeyDigest::of(account, which.operation, &which.key)).await?.ok_or(OperatorError::NotFound),
        None => lifecycle::find_by_reference(db, &which.key).await?.ok_or(OperatorError::NoReference),
    }
}

fn show(key: &Record) -> String {
    let at = |ms: i64| Timestamp::from_millis(ms).to_string();
    let or_none = |ms: Option<i64>| ms.map_or_else(|| "-".into(), at);
    let mut text = format!(
        "reference         {}\noperation         {}\naccount           {}\nstate             {}\nattempt           {}\n\
         reservation       {}\ncreated           {}\nmaybe sent until  {}\nlooks             {}\n",
        key.reference,
        key.operation.as_str(),
        printable(&key.account),
        key.key_state(),
        key.attempt,
        key.reservation_id,
        at(key.created_at_ms),
        or_none(key.maybe_sent_until_ms),
        key.looks,
    );
    let rest = match &key.state {
        State::InProgress { lease_until_ms, ended_by_worker } => {
            format!("lease until       {}\nended by worker   {ended_by_worker}\n", at(*lease_until_ms))
        }
        State::Completed { answer, completed_at_ms, expires_at_ms } => {
            format!(
                "answer            {}\ncompleted         {}\nexpires           {}\n",
                answer.status,
                at(*completed_at_ms),
                at(*expires_at_ms)
            )
        }
        State::Released { next_look_at_ms, expires_at_ms } => {
            format!("second look       {}\nexpires           {}\n", or_none(*next_look_at_ms), or_none(*expires_at_ms))
        }
        State::OutcomeUnknown { next_look_at_ms } => format!("next look         {}\n", or_none(*next_look_at_ms)),
    };
    text.push_str(&rest);
    text
}

fn show_history(journal: &[PastEntry], actions: &[PastAction]) -> String {
    let mut text = String::from("\nATTEMPT  AT                        WHAT     RESULT                         STATUS  TOOK_MS  WORKER\n");
    for entry in journal {
        let _ = writeln!(
            text,
            "{:>7}  {:<24}  {:<7}  {:<29}  {:>6}  {:>7}  {}",
            entry.attempt,
            Timestamp::from_millis(entry.at_ms).to_string(),
            printable(&entry.what),
            printable(&entry.result),
            entry.status.map_or_else(|| "-".into(), |s| s.to_string()),
            entry.duration_ms,
            printable(&entry.worker)
        );
    }
    for PastAction { at_ms, action } in actions {
        let OperatorAction { said, reason, operator } = action;
        let (operator, said, reason) = (printable(operator), printable(said), printable(reason));
        let _ = writeln!(text, "\n{} operator {operator} said \"{said}\": {reason}", Timestamp::from_millis(*at_ms));
    }
    text
}

async fn resolve(
    db: &Database,
    which: &Which,
    booking_id: Option<&str>,
    reason: &str,
    dry_run: bool,
    settings: &SettleSettings,
) -> Result<String, OperatorError> {
    let key = find(db, which).await?;
    if key.key_state() != KeyState::OutcomeUnknown {
        return Err(OperatorError::NotUnknown(key.key_state()));
    }
    let (said, becomes) = match (booking_id, key.operation) {
        (Some(_), _) => ("booked", KeyState::Completed),
        (None, Operation::Create) => ("not booked", KeyState::Released),
        // A change that was not carried out is a refusal; the caller may ask for another one.
        (None, Operation::Change | Operation::Cancel) => ("not booked", KeyState::Completed),
    };
    if dry_run {
        return Ok(format!("{} would become {becomes}\n", key.reference));
    }
    let retention_ms = millis(settings.retention);
    let action = OperatorAction { said: said.into(), reason: reason.to_owned(), operator: operator_name() };
    let moved = match (key.operation, booking_id) {
        (Operation::Create, None) => {
            let bounds = &settings.bounds;
            let look = settings.offer.lookup.then(|| bounds.booking_timeout_ms.saturating_add(bounds.absent_after_ms));
            lifecycle::resolve_not_booked(db, &key, look, retention_ms, &action).await?
        }
        (Operation::Create, Some(id)) => {
            let booking = Booking { booking_id: id.to_owned(), shown: Shown::default() };
            let (answer, effect) = booked(&settings.public_base, &key, answer::stored_details(&key)?, booking);
            lifecycle::resolve_answered(db, &key, &answer, &effect, retention_ms, &action).await? == Finalized::Done
        }
        (Operation::Change | Operation::Cancel, None) => {
            let answer = answer::rejected(&settings.public_base, &key.reservation_id);
            let retention_ms = if key.operation == Operation::Cancel { 0 } else { retention_ms };
            lifecycle::resolve_answered(db, &key, &answer, &Effect::None, retention_ms, &action).await? == Finalized::Done
        }
        (Operation::Change, Some(_)) => {
            let before = entity::reservation::find(db, &key.account, &key.reservation_id).await?.ok_or(OperatorError::NotFound)?;
            let details = answer::stored_details(&key)?;
            let after = Reservation { details, version: before.version + 1, updated_at_ms: key.created_at_ms, ..before };
            let answer = answer::changed(&after);
            let effect = Effect::Change { after, busy_for_ms: None };
            lifecycle::resolve_answered(db, &key, &answer, &effect, retention_ms, &action).await? == Finalized::Done
        }
        (Operation::Cancel, Some(_)) => {
            let effect = Effect::Cancel { id: key.reservation_id.clone(), at_ms: key.created_at_ms };
            lifecycle::resolve_answered(db, &key, &answer::cancelled(), &effect, retention_ms, &action).await? == Finalized::Done
        }
    };
    if !moved {
        return Err(OperatorError::Moved);
    }
    tracing::warn!(reference = %key.reference, account = %key.account, said, reason, "resolved by an operator");
    Ok(format!("{} is {becomes}\n", key.reference))
}

/// Who runs this, for the audit: as `sudo` or the login say.
fn operator_name() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}
