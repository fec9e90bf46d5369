//! Change or cancel a reservation. Both mean the same however often they are sent, so an unknown one is simply sent again under its key.

use entity::key_scope::Operation;
use entity::lifecycle::Effect;
use entity::reservation::{self, Details, Reservation};

use super::{Attempt, Outcome};
use crate::answer;
use crate::booking::shown::Effect as Shows;
use crate::booking::{Looked, Sent};
use crate::boot_clock::BootInstant;

/// What one round of sending came to.
enum Round {
    Applied,
    Refused,
    Over(Outcome),
    /// Sending it again may tell.
    Unsettled,
    /// Nothing but an operator, or a booking that changes, will tell.
    CannotTell,
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
                Round::CannotTell => {
                    let situation = self.situation();
                    return self.give_up(&situation).await;
                }
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
            Sent::Refused { .. } if before.refusal_is_believed(self.bounds()) => {
                self.refused_or_applied(details, before.may_free(), began).await
            }
            Sent::Nothing(nothing) if before.may_free() => Round::Over(self.free(nothing).await),
            Sent::Refused { .. } | Sent::Nothing(_) => Round::Unsettled,
            Sent::Unknown(why) => {
                self.last_sent = Some(began);
                self.log_unknown("change", &why);
                Round::Unsettled
            }
        }
    }

    /// The refusal may answer a copy of our own request, or a re-send of one that was carried out: what the booking shows decides.
    /// `first`: nothing unknown was sent before.
    async fn refused_or_applied(&mut self, details: Option<&Details>, first: bool, sent: BootInstant) -> Round {
        match (self.look_after_refusal().await, details) {
            (None, _) | (Some(Looked::Found(_)), None) | (Some(Looked::NotThere), Some(_)) => return Round::Refused,
            (Some(Looked::NotThere), None) => return Round::Applied,
            (Some(Looked::Found(booking)), Some(after)) => {
                match self.reservation().await.map(|before| booking.shown.effect_of(&before.details, after)) {
                    Some(Shows::Applied) => return Round::Applied,
                    Some(Shows::NotApplied) => return Round::Refused,
                    // Only the refusal itself speaks then. There was no other send that it could hide.
                    Some(Shows::CannotTell) if first => return Round::Refused,
                    Some(Shows::CannotTell) => return Round::CannotTell,
                    None => {}
                }
            }
            (Some(Looked::Unknown(_)), _) => {}
        }
        if first {
            self.last_sent = Some(sent);
        }
        Round::Unsettled
    }

    async fn applied(&mut self, details: Option<Details>) -> Outcome {
        let (id, at_ms) = (self.record.reservation_id.clone(), self.record.created_at_ms);
        let Some(details) = details else {
            return self.finalize(answer::cancelled(), Effect::Cancel { id, at_ms }).await;
        };
        let Some(before) = self.reservation().await else { return self.cannot_tell().await };
        let situation = self.situation();
        let busy_for_ms = match situation.unknown_send_age_ms {
            // A late first send could undo the next change where nothing there would recognise it.
            Some(age) if !situation.offer.idempotent => Some(self.bounds().settles_after_ms() - age).filter(|ms| *ms > 0),
            Some(_) | None => None,
        };
        let after = Reservation { details, version: before.version + 1, busy_for_ms, updated_at_ms: at_ms, ..before };
        self.finalize(answer::changed(&after), Effect::Change { after, busy_for_ms }).await
    }

    /// The reservation as it is without this change: the claim saw it confirmed, and nothing else may change it until this key is settled.
    async fn reservation(&self) -> Option<Reservation> {
        match reservation::find(&self.settler.db, &self.record.account, &self.record.reservation_id).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the reservation could not be read");
                None
            }
        }
    }

    async fn refused(&mut self) -> Outcome {
        let answer = answer::rejected(&self.settler.settings.public_base, &self.record.reservation_id);
        match self.record.operation {
            Operation::Cancel => self.refuse_unstored(answer).await,
            Operation::Create | Operation::Change => self.finalize(answer, Effect::None).await,
        }
    }
}
