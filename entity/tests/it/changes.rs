//! Changes of one reservation: one at a time, for the version they were made for, and noted before they are sent.

use crate::support::{Fresh, LONG_MS, answer, change_of, claim, confirmed, mine, to_version};
use entity::lifecycle::{self, Claimed, Effect, Finalized, Guard};
use entity::reservation::{self, Reservation, Status};

crate::on_both_databases![
    one_change_at_a_time_and_only_of_the_version_it_was_made_for,
    a_change_that_may_come_late_keeps_the_reservation_busy
];

async fn one_change_at_a_time_and_only_of_the_version_it_was_made_for(fresh: Fresh) {
    let db = &fresh.db;
    let before = confirmed(&fresh).await;
    let work = mine(db, &change_of(&before, "c1", to_version(1))).await;
    assert!(matches!(claim(db, &change_of(&before, "c2", to_version(1))).await, Claimed::Blocked));
    assert!(matches!(claim(db, &change_of(&before, &before.id, Guard::Cancel { version: None })).await, Claimed::Blocked));
    let unsettled = lifecycle::find_unsettled_change(db, &before.id).await.unwrap().unwrap();
    assert_eq!(unsettled.reference, work.record.reference);

    let after = Reservation { version: 2, ..before.clone() };
    let effect = Effect::Change { after, busy_for_ms: None };
    assert_eq!(lifecycle::finalize(db, &work.lease, &answer("y"), &effect, LONG_MS).await.unwrap(), Finalized::Done);
    assert!(matches!(claim(db, &change_of(&before, "c3", to_version(1))).await, Claimed::Blocked));
    let work = mine(db, &change_of(&before, "c3", to_version(2))).await;
    lifecycle::free(db, &work.lease).await.unwrap();

    assert!(matches!(claim(db, &change_of(&before, &before.id, Guard::Cancel { version: Some(1) })).await, Claimed::Blocked));
    let cancellation = mine(db, &change_of(&before, &before.id, Guard::Cancel { version: Some(2) })).await;
    let effect = Effect::Cancel { id: before.id.clone(), at_ms: cancellation.record.created_at_ms };
    assert_eq!(lifecycle::finalize(db, &cancellation.lease, &answer("z"), &effect, LONG_MS).await.unwrap(), Finalized::Done);
    let cancelled = reservation::find(db, "local", &before.id).await.unwrap().unwrap();
    assert_eq!((cancelled.status, cancelled.version), (Status::Cancelled, 3));
    assert!(matches!(claim(db, &change_of(&before, "c4", to_version(3))).await, Claimed::Blocked));
}

async fn a_change_that_may_come_late_keeps_the_reservation_busy(fresh: Fresh) {
    let db = &fresh.db;
    let before = confirmed(&fresh).await;
    let work = mine(db, &change_of(&before, "c1", to_version(1))).await;
    let effect = Effect::Change { after: Reservation { version: 2, ..before.clone() }, busy_for_ms: Some(LONG_MS) };
    lifecycle::finalize(db, &work.lease, &answer("y"), &effect, LONG_MS).await.unwrap();
    assert!(matches!(claim(db, &change_of(&before, "c2", to_version(2))).await, Claimed::Blocked));
    let busy = reservation::find(db, "local", &before.id).await.unwrap().unwrap();
    assert!((1..=LONG_MS).contains(&busy.busy_for_ms.unwrap()));
}
