//! Figures of several rounds in short.

use std::time::Duration;

/// The least, middle and greatest of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Sums figures up; none of no figures.
    pub(crate) fn of(figures: &[f64]) -> Option<Self> {
        let sorted = sorted(figures);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { min, median: median(&sorted)?, max })
    }

    /// Shows the figures with digits that fit their size: `2.41 (2.20–3.07)`.
    pub(crate) fn show(&self) -> String {
        let Self { min, median, max } = *self;
        if (max - min).abs() < f64::EPSILON {
            return number(median);
        }
        format!("{} ({}–{})", number(median), number(min), number(max))
    }
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the middle of sorted figures.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, upper))
}

/// Returns the middle of figures in any order.
pub(crate) fn middle(figures: &[f64]) -> Option<f64> {
    median(&sorted(figures))
}

/// Returns the figure below which `percent` of a hundred lie.
pub(crate) fn percentile(figures: &[f64], percent: usize) -> Option<f64> {
    let sorted = sorted(figures);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((sorted.len() * percent / 100).min(last)).copied()
}

/// Shows a number with three digits that count.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        medium if medium < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns a length of time in milliseconds.
pub(crate) fn ms(length: Duration) -> f64 {
    length.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_up() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!(summary, Summary { min: 1.0, median: 2.5, max: 10.0 });
        assert_eq!(summary.show(), "2.50 (1.00–10.0)");
        assert_eq!(Summary::of(&[7.0]).unwrap().show(), "7.00");
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn percentiles_stay_within() {
        let figures: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&figures, 90), Some(91.0));
        assert_eq!(percentile(&figures, 100), Some(100.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
