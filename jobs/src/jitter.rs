//! Chance in the pauses between looks: keys that got stuck together, because the booking system was away, do not come back together.

/// This long or up to a quarter longer, never shorter: where it is time that tells, an earlier look would tell nothing.
pub(crate) fn spread_ms(pause_ms: i64) -> i64 {
    pause_ms.saturating_add(rand::random_range(0..=pause_ms.max(0) / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_and_never_shortened() {
        let pauses: Vec<i64> = (0..1000).map(|_| spread_ms(300_000)).collect();
        assert!(pauses.iter().all(|pause| (300_000..=375_000).contains(pause)));
        let different: std::collections::BTreeSet<_> = pauses.iter().map(|pause| pause / 7_500).collect();
        assert!(different.len() >= 10, "{different:?}");
        assert_eq!((spread_ms(0), spread_ms(1)), (0, 1));
    }
}
