//! The calls of an attempt: each leaves an entry in the journal.

use entity::attempt_journal::Entry;
use entity::reservation::Details;

use super::Attempt;
use crate::booking::{Booking, Looked, Sent};
use crate::boot_clock::BootInstant;
use crate::journal::{of_looked, of_sent};
use crate::rules::Purpose;

impl Attempt<'_> {
    pub(super) async fn call_book(&self, details: &Details) -> Sent<Booking> {
        let began = BootInstant::now();
        let sent = self.settler.booking.book(&self.record.reference, details).await;
        self.note("book", of_sent(&sent), began);
        sent
    }

    pub(super) async fn call_change(&self, details: &Details) -> Sent {
        let began = BootInstant::now();
        let sent = self.settler.booking.change(&self.record.reservation_id, &self.record.reference, details).await;
        self.note("change", of_sent(&sent), began);
        sent
    }

    pub(super) async fn call_cancel(&self) -> Sent {
        let began = BootInstant::now();
        let sent = self.settler.booking.cancel(&self.record.reservation_id, &self.record.reference).await;
        self.note("cancel", of_sent(&sent), began);
        sent
    }

    /// Looks for the booking of this reservation.
    pub(super) async fn call_look_up(&self) -> Looked {
        let began = BootInstant::now();
        let looked = self.settler.booking.look_up(&self.record.reservation_id).await;
        self.note("look up", of_looked(&looked), began);
        looked
    }

    /// What is there once a send was refused; `None` where the booking system offers no look-up. An unreadable answer is asked for again
    /// as long as the caller waits.
    pub(super) async fn look_after_refusal(&mut self) -> Option<Looked> {
        if !self.settler.settings.offer.lookup {
            return None;
        }
        loop {
            let looked = self.call_look_up().await;
            let Looked::Unknown(why) = &looked else { return Some(looked) };
            self.log_unknown("look up", why);
            if self.purpose != Purpose::Request || !self.pause().await {
                return Some(looked);
            }
        }
    }

    pub(super) fn note(&self, what: &'static str, (result, status): (String, Option<u16>), began: BootInstant) {
        self.settler.journal.note(Entry {
            reference: self.record.reference.clone(),
            attempt: self.record.attempt,
            what,
            result,
            status,
            duration_ms: began.elapsed_ms(),
            ended_ms_ago: 0,
        });
    }
}
