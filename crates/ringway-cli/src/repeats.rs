//! Median and spread of several runs of one row.

/// Median, extremes and relative spread of the values of all runs; none is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Coefficient of variation: sample standard deviation divided by mean; `None` below two runs or at mean zero.
    pub(crate) cv: Option<f64>,
}

impl Spread {
    /// Returns the spread of `values`; `None` if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self { median: middle(&sorted), min, max, cv: coefficient_of_variation(values) })
    }
}

/// Returns the median of the known values; `None` if none is known.
pub(crate) fn median(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.into_iter().flatten().collect();
    Spread::of(&known).map(|spread| spread.median)
}

/// Returns the median: the mean of the middle two if the number of values is even.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt() / mean)
}

/// Compares the requests in flight with rate times mean latency (Little's law), and
/// returns a warning if they differ by more than 5 %: then one of the three is wrong.
pub(crate) fn check_littles_law(
    rate_per_s: f64,
    latency_us_mean: f64,
    in_flight: f64,
) -> Option<String> {
    let implied = rate_per_s * latency_us_mean / 1e6;
    let difference = (implied - in_flight).abs() / in_flight;
    // NaN also warns.
    let agrees = difference <= LITTLE_DIFFERENCE_MAX;
    (!agrees).then(|| {
        format!(
            "rate times mean latency gives {implied:.1} in flight where {in_flight:.1} were: rate or \
             latencies of this row are not to be trusted"
        )
    })
}

const LITTLE_DIFFERENCE_MAX: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_runs() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).expect("five values");
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 5.0));
        assert!((spread.cv.expect("five values") - 2.5f64.sqrt() / 3.0).abs() < 1e-12);
        assert_eq!(Spread::of(&[1.0, 2.0]).expect("two values").median, 1.5);
        assert_eq!(Spread::of(&[7.0]).expect("one value").cv, None);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn unknown_values_have_no_part_in_the_median() {
        assert_eq!(median([None, Some(1.0), Some(5.0), None, Some(3.0)]), Some(3.0));
        assert_eq!(median([None, None]), None);
    }

    #[test]
    fn littles_law_warns_beyond_five_percent() {
        // 50,000 a second at a mean of 2 ms keep 100 in flight.
        assert_eq!(check_littles_law(50_000.0, 2_000.0, 100.0), None);
        assert_eq!(check_littles_law(50_000.0, 1_910.0, 100.0), None);
        assert!(check_littles_law(50_000.0, 1_890.0, 100.0).is_some());
        assert!(check_littles_law(50_000.0, f64::NAN, 100.0).is_some());
        insta::assert_snapshot!(
            check_littles_law(50_000.0, 1_000.0, 100.0).expect("half is a warning"),
            @"rate times mean latency gives 50.0 in flight where 100.0 were: rate or latencies of this row are not to be trusted"
        );
    }
}
