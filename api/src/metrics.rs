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
}

/// What is read elsewhere when the metrics are asked for.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    /// SQL statements this process has sent.
    pub statements: u64,
    /// How the attempts of this process ended: (operation, outcome) and how often.
    pub outcomes: Vec<((&'static str, &'static str), u64)>,
    /// How long ago each job last succeeded, in any process.
    pub job_ages_ms: Vec<(String, i64)>,
    /// Keys whose outcome is unknown, if the storage answers.
    pub unknown_keys: Option<i64>,
}

impl Metrics {
    /// Counts an answer that left the house.
    pub fn answered(&self, method: &str, status: u16, replayed: bool) {
        let labels = AnswerLabels { method: method.to_owned(), status, replayed: replayed.to_string() };
        self.answers.get_or_create(&labels).inc();
    }

    /// The text.
    #[must_use]
    pub fn text(&self, readings: &Readings) -> String {
        let mut registry = Registry::with_prefix("reservation_api");
        registry.register("http_answers", "Answers by method, status and whether they were replays", self.answers.clone());
        let outcomes: Family<OutcomeLabels, Counter> = Family::default();
        for ((operation, outcome), count) in &readings.outcomes {
            outcomes.get_or_create(&OutcomeLabels { operation, outcome }).inc_by(*count);
        }
        registry.register("attempts", "Attempts of this process, requests' and the release job's, by how they ended", outcomes);
        let ages: Family<JobLabels, Gauge> = Family::default();
        for (job, age_ms) in &readings.job_ages_ms {
            ages.get_or_create(&JobLabels { job: job.clone() }).set(age_ms / 1000);
        }
        let sent = Counter::<u64>::default();
        sent.inc_by(readings.statements);
        registry.register("sql_statements", "SQL statements sent by this process, begins and ends of transactions not counted", sent);
        registry.register("job_last_success_age_seconds", "Time since the job last succeeded in any process", ages);
        if let Some(unknown) = readings.unknown_keys {
            let gauge = Gauge::<i64>::default();
            gauge.set(unknown);
            registry.register("unknown_keys", "Keys of all accounts whose outcome is unknown", gauge);
        }
        let mut text = String::new();
        // Writing into a `String` cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
