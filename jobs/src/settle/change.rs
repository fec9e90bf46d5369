//! Change or cancel a reservation. Both mean the same however often they are sent, so an unknown one is simply sent again under its key.

use entity::key_scope::Operation;
use entity::lifecycle::Effect;
use entity::reservation::{self, Details, Reservation};

use super::{Attempt, Outcome};
use crate::answer;
use crate::booking::{Looked, Sent};
use crate::boot_clock::BootInstant;

/// What one round of sending came to.
enum Round {
    Applied,
    Refused,
    Over(Outcome),
    Unsettled,
}

impl Attempt<'_> {
    pub(super) async fn change(&mut self) -> Outcome {
        let details = match self.record.operation {
            Operation::Cancel => None,
            Operation::Create | Operation::Change => match answer::stored_details(&self.record) {
                Ok(details) => Some(details),
                Err(error) => return self.cannot_be_read(&error).await,
            },
        };
        loop {
            if !self.has_lease_to_send().await {
                return self.cannot_tell().await;
            }
            match self.round(details.as_ref()).await {
                Round::Applied => return self.applied(details).await,
                Round::Refused => return self.refused().await,
                Round::Over(outcome) => return outcome,
                Round::Unsettled => {}
            }
            let recovering = self.purpose != super::Purpose::Request;
            if recovering || !self.pause().await {
                return self.cannot_tell().await;
            }
        }
    }

    async fn round(&mut self, details: Option<&Details>) -> Round {
        let (began, before) = (BootInstant::now(), self.situation());
        let sent = match details {
            Some(details) => self.call_change(details).await,
            None => self.call_cancel().await,
        };
        match sent {
            Sent::Done { .. } => Round::Applied,
            Sent::Refused { .. } if before.may_free() => Round::Refused,
            Sent::Refused { .. } if before.refusal_is_believed(self.bounds()) => self.check_refusal(details).await,
            Sent::Nothing(nothing) if before.may_free() => Round::Over(self.free(nothing).await),
            Sent::Refused { .. } | Sent::Nothing(_) => Round::Unsettled,
            Sent::Unknown(why) => {
                self.last_sent = Some(began);
                self.log_unknown("change", why);
                Round::Unsettled
            }
        }
    }

    /// A re-sent change was refused: perhaps because the first send was carried out. What the booking there says is true.
    async fn check_refusal(&self, details: Option<&Details>) -> Round {
        if !self.settler.settings.offer.lookup {
            return Round::Refused;
        }
        match (self.call_look_up().await, details) {
            (Looked::Found(booking), Some(details)) if booking.values.as_ref().is_some_and(|v| v.are_those_of(details)) => Round::Applied,
            (Looked::NotThere, None) => Round::Applied,
            (Looked::Found(_), _) | (Looked::NotThere, Some(_)) => Round::Refused,
            (Looked::Unknown(why), _) => {
                self.log_unknown("look up", why);
                Round::Unsettled
            }
        }
    }

    async fn applied(&mut self, details: Option<Details>) -> Outcome {
        let (id, at_ms) = (self.record.reservation_id.clone(), self.record.created_at_ms);
        let Some(details) = details else {
            return self.finalize(answer::cancelled(), Effect::Cancel { id, at_ms }).await;
        };
        // The claim saw it confirmed, and nothing else may change it until this key is settled.
        let before = match reservation::find(&self.settler.db, &self.record.account, &id).await {
            Ok(Some(before)) => before,
            Ok(None) => return self.cannot_tell().await,
            Err(error) => {
                tracing::warn!(%error, "the reservation could not be read");
                return self.cannot_tell().await;
            }
        };
        let situation = self.situation();
        let busy_for_ms = match situation.unknown_send_age_ms {
            // A late first send could undo the next change where nothing there would recognise it.
            Some(age) if !situation.offer.idempotent => Some(self.bounds().settles_after_ms() - age).filter(|ms| *ms > 0),
            Some(_) | None => None,
        };
        let after = Reservation { details, version: before.version + 1, busy_for_ms, updated_at_ms: at_ms, ..before };
        self.finalize(answer::changed(&after), Effect::Change { after, busy_for_ms }).await
    }

    async fn refused(&mut self) -> Outcome {
        let answer = answer::rejected(&self.settler.settings.public_base, &self.record.reservation_id);
        match self.record.operation {
            Operation::Cancel => self.refuse_unstored(answer).await,
            Operation::Create | Operation::Change => self.finalize(answer, Effect::None).await,
        }
    }
}
