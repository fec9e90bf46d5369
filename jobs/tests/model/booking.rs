//! The booking system: what a send does there, when it does it.

use crate::settings::Settings;
use crate::state::{Ref, Reference, State, UnderWay};

/// More bookings than this tell nothing new.
const MANY: u8 = 2;

/// Whether it recognises a second send under this reference.
pub fn deduplicates(settings: &Settings, reference: &Reference) -> bool {
    settings.offer.idempotent && settings.remembers_for.is_none_or(|ticks| reference.age < ticks)
}

/// A send is carried out.
pub fn book(settings: &Settings, state: &mut State, reference: Ref) {
    let there = &mut state.references[usize::from(reference)];
    if there.bookings == 0 || !deduplicates(settings, there) {
        there.bookings = (there.bookings + 1).min(MANY);
    }
}

/// A send is left to itself.
pub fn leave(state: &mut State, reference: Ref, left: i8) {
    state.under_way.push(UnderWay { reference, left });
}

/// The send at this place takes effect.
pub fn arrive(settings: &Settings, state: &mut State, send: usize) {
    let sent = state.under_way.remove(send);
    book(settings, state, sent.reference);
}
