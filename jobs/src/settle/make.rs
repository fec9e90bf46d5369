//! Make a reservation: book, or find out whether an earlier attempt has booked.

use entity::lifecycle::{Effect, NewReservation};
use entity::reservation::{Details, Reservation, Status};

use super::{Attempt, Outcome};
use crate::answer;
use crate::booking::{Booking, Looked, Sent};
use crate::boot_clock::BootInstant;
use crate::rules::Step;

impl Attempt<'_> {
    pub(super) async fn make(&mut self) -> Outcome {
        let details = match answer::stored_details(&self.record) {
            Ok(details) => details,
            Err(error) => return self.cannot_be_read(&error).await,
        };
        let mut step = self.situation().begin(self.origin, self.purpose);
        loop {
            step = match step {
                Step::LookUp => {
                    // What is read there is as old as the begin of the look-up: a send may have arrived since.
                    let began = self.situation();
                    match self.call_look_up().await {
                        Looked::Found(booking) => return self.booked(details, booking).await,
                        Looked::NotThere => {
                            self.absent = began.absence_is_certain(self.bounds());
                            began.after_not_there(self.purpose, self.bounds())
                        }
                        Looked::Unknown(why) => {
                            self.log_unknown("look up", &why);
                            self.again().await
                        }
                    }
                }
                Step::Send => match self.send(&details).await {
                    Ok(outcome) => return outcome,
                    Err(next) => next,
                },
                Step::Release => return self.release().await,
                Step::Stop => return self.cannot_tell().await,
            }
        }
    }

    /// One send; the outcome, or what to do next.
    async fn send(&mut self, details: &Details) -> Result<Outcome, Step> {
        if !self.has_lease_to_send().await {
            return Err(Step::Stop);
        }
        let began = BootInstant::now();
        let before = self.situation();
        if !before.may_send(self.absent) {
            return Err(Step::Stop);
        }
        self.absent = false;
        match self.call_book(details).await {
            Sent::Done { told, .. } => Ok(self.booked(details.clone(), told).await),
            Sent::Refused { status } if before.refusal_is_believed(self.bounds()) => {
                tracing::info!(reference = %self.record.reference, status, "refused by the booking system");
                self.refused_or_booked(details, began).await
            }
            Sent::Nothing(nothing) if before.may_free() => Ok(self.free(nothing).await),
            // Refused, but an earlier send may still be under way there: it proves nothing, and does not count as a send.
            Sent::Refused { .. } | Sent::Nothing(_) => Err(self.again().await),
            Sent::Unknown(why) => {
                self.last_sent = Some(began);
                self.log_unknown("book", &why);
                Err(self.again().await)
            }
        }
    }

    /// The refusal may answer a copy of our own request, made by a proxy or by the HTTP client: then the first copy has booked. Where
    /// nobody can say, the refusal proves no more than a send without an answer.
    async fn refused_or_booked(&mut self, details: &Details, sent: BootInstant) -> Result<Outcome, Step> {
        match self.look_after_refusal().await {
            Some(Looked::Found(booking)) => Ok(self.booked(details.clone(), booking).await),
            Some(Looked::NotThere) | None => {
                let answer = answer::rejected(&self.settler.settings.public_base, &self.record.reservation_id);
                Ok(self.finalize(answer, Effect::None).await)
            }
            Some(Looked::Unknown(_)) => {
                self.last_sent = Some(sent);
                Err(Step::Stop)
            }
        }
    }

    async fn again(&mut self) -> Step {
        let next = self.situation().after_unsettled(self.purpose);
        if next == Step::Stop || self.pause().await { next } else { Step::Stop }
    }

    async fn booked(&mut self, details: Details, booking: Booking) -> Outcome {
        let (answer, effect) = booked(&self.settler.settings.public_base, &self.record, details, booking);
        self.finalize(answer, effect).await
    }
}

/// The answer and the reservation that follow from a booking: the same whoever finds it, and whenever.
pub(crate) fn booked(
    public_base: &str,
    record: &entity::idempotency_key::Record,
    details: Details,
    booking: Booking,
) -> (entity::idempotency_key::Answer, Effect) {
    let reservation = Reservation {
        id: record.reservation_id.clone(),
        account: record.account.clone(),
        status: Status::Confirmed,
        details,
        booking_id: booking.booking_id,
        version: 1,
        busy_for_ms: None,
        created_at_ms: record.created_at_ms,
        updated_at_ms: record.created_at_ms,
    };
    let answer = answer::created(public_base, &reservation);
    let effect = Effect::Create(NewReservation {
        id: reservation.id,
        account: reservation.account,
        details: reservation.details,
        booking_id: reservation.booking_id,
        created_at_ms: reservation.created_at_ms,
    });
    (answer, effect)
}
