//! The query string, strictly: what is not documented is refused, so that no parameter ever silently means nothing.

use poem::Request;

use super::problem::{FieldError, Problem};

/// The parameters of a request.
#[derive(Debug, Clone, Default)]
pub struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    /// Reads them.
    ///
    /// # Errors
    /// `request-invalid` that names every unknown or repeated parameter.
    pub fn read(request: &Request, known: &[&str]) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = form_pairs(request.uri().query().unwrap_or_default());
        let mut faults = Vec::new();
        for (i, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                faults.push(FieldError::new("", "the query has a parameter that is not in the API description"));
            } else if pairs[..i].iter().any(|(earlier, _)| earlier == name) {
                faults.push(FieldError::new("", format!("the query parameter `{name}` is there more than once")));
            }
        }
        if faults.is_empty() { Ok(Self(pairs)) } else { Err(Problem::invalid(faults)) }
    }

    /// The value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// `application/x-www-form-urlencoded`, as browsers write queries.
fn form_pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(name, value)| (decode(name), decode(value))).collect()
}

/// A parameter that cannot be what it says.
#[must_use]
pub fn invalid(name: &str, detail: &str) -> Problem {
    Problem::invalid(vec![FieldError::new("", format!("the query parameter `{name}` {detail}"))])
}
