//! `POST /reservations`.

use entity::idempotency_key::{Answer, Record};
use entity::key_scope::Operation;
use entity::lifecycle::Guard;
use jobs::answer;
use jobs::request::Details;
use poem::Request;

use super::unreadable;
use crate::http::auth::Caller;
use crate::http::key_header::IdempotencyKey;
use crate::http::keyed::{self, Keyed, KeyedOperation};
use crate::http::payload::canonical_create;
use crate::http::prefer::Preference;
use crate::http::problem::Problem;
use crate::http::query::QueryParameters;
use crate::http::stored::Outgoing;
use crate::service::Service;

pub(super) async fn create(request: &Request, caller: Caller, key: IdempotencyKey, details: Details) -> Result<Outgoing, Problem> {
    QueryParameters::read(request, &[])?;
    let service = Service::of(request)?;
    let keyed = Keyed {
        account: caller.0.account,
        operation: Operation::Create,
        key: key.as_str().to_owned(),
        path_id: None,
        body: canonical_create(&details),
    };
    let creation = Creation { public_base: service.settler.settings().public_base.clone() };
    keyed::answer(&service, &keyed, Preference::of(request.headers()), &creation).await
}

struct Creation {
    public_base: String,
}

impl KeyedOperation for Creation {
    async fn guard(&self) -> Result<Guard, Problem> {
        Ok(Guard::None)
    }

    async fn accepted(&self, record: &Record) -> Result<Outgoing, Problem> {
        let pending = answer::represent_unsettled(record).map_err(|e| unreadable(&e))?;
        Ok(Outgoing::plain(Answer {
            status: 202,
            content_type: Some(answer::JSON.into()),
            location: Some(answer::location(&self.public_base, &record.reservation_id)),
            etag: Some(pending.etag),
            body: pending.body,
        }))
    }
}
