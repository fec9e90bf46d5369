//! Counters of this process, and what the database says of all, as `/metrics` shows them (OpenMetrics text).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What an answer was.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: String,
    status: u16,
    replayed: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobLabels {
    job: String,
}

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {
    answers: Family<AnswerLabels, Counter>,
    outcomes: Family<OutcomeLabels, Counter>,
}

impl Metrics {
    /// Counts an answer that left the house.
    pub fn answered(&self, method: &str, status: u16, replayed: bool) {
        let labels = AnswerLabels { method: method.to_owned(), status, replayed: replayed.to_string() };
        self.answers.get_or_create(&labels).inc();
    }

    /// Counts how an attempt ended.
    pub fn settled(&self, operation: &'static str, outcome: &'static str) {
        self.outcomes.get_or_create(&OutcomeLabels { operation, outcome }).inc();
    }

    /// The text. `statements`: SQL statements this process has sent. `job_ages_ms`: how long ago each job last succeeded, in any process.
    #[must_use]
    pub fn text(&self, statements: u64, job_ages_ms: &[(String, i64)]) -> String {
        let mut registry = Registry::with_prefix("reservation_api");
        registry.register("http_answers", "Answers by method, status and whether they were replays", self.answers.clone());
        registry.register("attempts", "Attempts of this process by how they ended", self.outcomes.clone());
        let ages: Family<JobLabels, Gauge> = Family::default();
        for (job, age_ms) in job_ages_ms {
            ages.get_or_create(&JobLabels { job: job.clone() }).set(age_ms / 1000);
        }
        let sent = Counter::<u64>::default();
        sent.inc_by(statements);
        registry.register("sql_statements", "SQL statements sent by this process, begins and ends of transactions not counted", sent);
        registry.register("job_last_success_age_seconds", "Time since the job last succeeded in any process", ages);
        let mut text = String::new();
        // Writing into a `String` cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
