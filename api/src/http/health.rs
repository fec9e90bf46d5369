//! For operations: is the process alive, can it serve, and what has it counted.

use std::sync::Arc;

use entity::{job_run, lifecycle};
use poem::web::{Data, Json};
use poem::{IntoResponse, Response, handler};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::problem::Problem;
use crate::metrics::Readings;
use crate::service::Service;

/// Cancelled once the process has been told to stop.
#[derive(Debug, Clone)]
pub struct Stopping(pub CancellationToken);

/// `GET /health/live`: the process runs.
#[handler]
pub fn live() -> Response {
    Json(json!({"status": "live"})).into_response()
}

/// `GET /health/ready`: the storage can be read and written, and the process is not stopping. Also when each job last succeeded, in any
/// process.
#[handler]
pub async fn ready(service: Data<&Arc<Service>>, stopping: Data<&Stopping>) -> Result<Response, Problem> {
    if stopping.0.0.is_cancelled() {
        return Err(Problem::new(super::problem::Code::StorageUnavailable, "The process is stopping."));
    }
    service.can_write().await?;
    let db = service.db.clone();
    let runs = service.storage(async move { job_run::all(&db).await }).await?;
    let jobs: Vec<_> = runs.iter().map(|r| json!({"job": r.job, "last_success_age_ms": r.age_ms, "worker": r.worker})).collect();
    Ok(Json(json!({"status": "ready", "jobs": jobs})).into_response())
}

/// `GET /metrics`: OpenMetrics text. Without storage what it tells is missing, the counters are not.
#[handler]
pub async fn metrics(service: Data<&Arc<Service>>) -> Response {
    let db = service.db.clone();
    let read = service.storage(async move { Ok((job_run::all(&db).await?, lifecycle::count_unknown(&db).await?)) }).await.ok();
    let (runs, unknown_keys) = read.map_or_else(Default::default, |(runs, unknown)| (runs, Some(unknown)));
    let readings = Readings {
        statements: service.db.statements(),
        outcomes: service.settler.outcomes().counts(),
        job_ages_ms: runs.into_iter().map(|r| (r.job, r.age_ms)).collect(),
        unknown_keys,
    };
    Response::builder().content_type("application/openmetrics-text; version=1.0.0; charset=utf-8").body(service.metrics.text(&readings))
}
