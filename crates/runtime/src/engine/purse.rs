//! Budgets: a purse within a purse. What is reserved from one is reserved from all above it.

use std::sync::{Arc, Mutex, PoisonError};

use runtime_api::Allowance;

/// Money and tokens together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    /// US dollars.
    pub(crate) usd: f64,
    /// Tokens.
    pub(crate) tokens: u64,
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self { usd: self.usd + other.usd, tokens: self.tokens.saturating_add(other.tokens) }
    }

    fn minus(self, other: Self) -> Self {
        let usd = (self.usd - other.usd).max(0.0);
        Self { usd, tokens: self.tokens.saturating_sub(other.tokens) }
    }
}

/// Why something cannot be spent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Short {
    /// Whose purse it is: `turn`, `session`, `day`.
    pub(crate) of: &'static str,
    /// What is used up, for people: `$4.98 of $5.00`.
    pub(crate) what: String,
}

/// A purse. Children spend what is left of their parent's.
#[derive(Debug)]
pub(crate) struct Purse {
    of: &'static str,
    /// The purse above, and what may be spent of it from here.
    parent: Option<(Arc<Purse>, Allowance)>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    allowance: Allowance,
    spent: Amount,
    reserved: Amount,
}

impl Purse {
    /// Makes a purse of which something is spent already.
    pub(crate) fn new(
        of: &'static str,
        parent: Option<(Arc<Purse>, Allowance)>,
        allowance: Allowance,
        spent: Amount,
    ) -> Arc<Self> {
        let inner = Inner { allowance, spent, reserved: Amount::default() };
        Arc::new(Self { of, parent, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what is spent: the log knows better.
    pub(crate) fn set_spent(&self, spent: Amount) {
        self.inner().spent = spent;
    }

    /// Returns what can still be reserved here and above; none where nothing limits it.
    pub(crate) fn left(&self) -> (Option<f64>, Option<u64>) {
        self.left_of(Allowance::default())
    }

    fn left_of(&self, narrower: Allowance) -> (Option<f64>, Option<u64>) {
        let own = self.inner().left(narrower);
        let above = self.parent.as_ref().map(|(parent, allowed)| parent.left_of(*allowed));
        let above = above.unwrap_or_default();
        (smaller(own.0, above.0), smaller(own.1, above.1))
    }

    /// Tells whether money is limited here or above.
    pub(crate) fn limits_money(&self) -> bool {
        let is_limited = self.inner().allowance.usd.is_some();
        let above = |(parent, allowed): &(Arc<Purse>, Allowance)| {
            allowed.usd.is_some() || parent.limits_money()
        };
        is_limited || self.parent.as_ref().is_some_and(above)
    }

    /// Reserves an amount here and in every purse above, or in none.
    pub(crate) fn reserve(self: &Arc<Self>, amount: Amount) -> Result<Reservation, Short> {
        self.reserve_of(amount, Allowance::default())
    }

    fn reserve_of(
        self: &Arc<Self>,
        amount: Amount,
        narrower: Allowance,
    ) -> Result<Reservation, Short> {
        let above = match &self.parent {
            Some((parent, allowed)) => Some(Box::new(parent.reserve_of(amount, *allowed)?)),
            None => None,
        };
        let mut inner = self.inner();
        if let Some(what) = inner.shortage(amount, narrower) {
            return Err(Short { of: self.of, what });
        }
        inner.reserved = inner.reserved.plus(amount);
        drop(inner);
        Ok(Reservation { purse: Arc::clone(self), amount, above, is_settled: false })
    }
}

impl Inner {
    /// Returns the narrower of what is allowed to all and to whoever asks.
    fn allowed(&self, narrower: Allowance) -> Allowance {
        Allowance {
            usd: smaller(self.allowance.usd, narrower.usd),
            tokens: smaller(self.allowance.tokens, narrower.tokens),
        }
    }

    fn left(&self, narrower: Allowance) -> (Option<f64>, Option<u64>) {
        let used = self.spent.plus(self.reserved);
        let allowed = self.allowed(narrower);
        let usd = allowed.usd.map(|limit| (limit - used.usd).max(0.0));
        let tokens = allowed.tokens.map(|limit| limit.saturating_sub(used.tokens));
        (usd, tokens)
    }

    fn shortage(&self, amount: Amount, narrower: Allowance) -> Option<String> {
        let used = self.spent.plus(self.reserved);
        let allowed = self.allowed(narrower);
        if let Some(limit) = allowed.usd
            && used.usd + amount.usd > limit
        {
            return Some(format!("${:.2} of ${limit:.2}", used.usd));
        }
        if let Some(limit) = allowed.tokens
            && used.tokens.saturating_add(amount.tokens) > limit
        {
            return Some(format!("{} of {limit} tokens", used.tokens));
        }
        None
    }
}

fn smaller<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// Something set aside. Dropping it gives it back; settling it spends what was really used.
#[derive(Debug)]
pub(crate) struct Reservation {
    purse: Arc<Purse>,
    amount: Amount,
    above: Option<Box<Reservation>>,
    is_settled: bool,
}

impl Reservation {
    /// Spends what was really used, here and above.
    pub(crate) fn settle(mut self, used: Amount) {
        self.settle_all(used);
    }

    fn settle_all(&mut self, used: Amount) {
        if let Some(above) = &mut self.above {
            above.settle_all(used);
        }
        let mut inner = self.purse.inner();
        inner.reserved = inner.reserved.minus(self.amount);
        inner.spent = inner.spent.plus(used);
        self.is_settled = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_settled {
            let mut inner = self.purse.inner();
            inner.reserved = inner.reserved.minus(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(usd: f64) -> Allowance {
        Allowance { usd: Some(usd), tokens: None }
    }

    fn amount(usd: f64) -> Amount {
        Amount { usd, tokens: 0 }
    }

    #[test]
    fn children_spend_what_is_left_of_their_parents() {
        let session = Purse::new("session", None, dollars(1.0), Amount::default());
        let one = Purse::new(
            "turn",
            Some((Arc::clone(&session), Allowance::default())),
            dollars(5.0),
            Amount::default(),
        );
        let two = Purse::new(
            "turn",
            Some((Arc::clone(&session), Allowance::default())),
            dollars(5.0),
            Amount::default(),
        );
        let first = one.reserve(amount(0.75)).unwrap();
        let short = two.reserve(amount(0.5)).unwrap_err();
        assert_eq!((short.of, short.what.as_str()), ("session", "$0.75 of $1.00"));
        assert_eq!(two.left().0, Some(0.25));
        first.settle(amount(0.25));
        assert_eq!(two.left().0, Some(0.75));
        drop(two.reserve(amount(0.5)).unwrap());
        assert_eq!((session.left().0, two.left().0), (Some(0.75), Some(0.75)));
    }

    #[test]
    fn a_refused_reservation_sets_nothing_aside() {
        let day = Purse::new("day", None, dollars(10.0), Amount::default());
        let turn = Purse::new(
            "turn",
            Some((Arc::clone(&day), Allowance::default())),
            dollars(1.0),
            Amount::default(),
        );
        assert_eq!(turn.reserve(amount(2.0)).unwrap_err().of, "turn");
        assert_eq!(day.left().0, Some(10.0));
    }

    #[test]
    fn tokens_are_limited_as_money_is() {
        let allowance = Allowance { usd: None, tokens: Some(100) };
        let spent = Amount { usd: 0.0, tokens: 90 };
        let purse = Purse::new("turn", None, allowance, spent);
        let short = purse.reserve(Amount { usd: 0.0, tokens: 20 }).unwrap_err();
        assert_eq!(short.what, "90 of 100 tokens");
        assert!(!purse.limits_money());
        assert_eq!(purse.left(), (None, Some(10)));
    }

    #[test]
    fn what_is_shared_is_limited_for_each_by_its_own_allowance() {
        let day = Purse::new("day", None, Allowance::default(), amount(0.5));
        let of = |usd| {
            let parent = Some((Arc::clone(&day), dollars(usd)));
            Purse::new("session", parent, Allowance::default(), Amount::default())
        };
        let (careful, generous) = (of(1.0), of(5.0));
        let held = generous.reserve(amount(0.4)).unwrap();
        assert_eq!(careful.reserve(amount(0.2)).unwrap_err().of, "day");
        assert!(careful.limits_money());
        drop(held);
        careful.reserve(amount(0.2)).unwrap();
    }

    proptest::proptest! {
        #[test]
        fn siblings_together_never_spend_more_than_their_parent(
            steps in proptest::collection::vec((0_usize..4, 0_u64..60, 0_u64..60), 1..60),
        ) {
            let limit = Allowance { usd: None, tokens: Some(200) };
            let parent = Purse::new("session", None, limit, Amount::default());
            let above = Some((Arc::clone(&parent), Allowance::default()));
            let children: Vec<_> = (0..4)
                .map(|_| {
                    let own = Allowance { usd: None, tokens: Some(120) };
                    Purse::new("turn", above.clone(), own, Amount::default())
                })
                .collect();
            let mut spent = [0_u64; 4];
            let mut held = Vec::new();
            for (child, reserve, used) in steps {
                let tokens = |tokens| Amount { usd: 0.0, tokens };
                if let Ok(reservation) = children[child].reserve(tokens(reserve)) {
                    // Nobody uses more than was reserved.
                    let used = used.min(reserve);
                    spent[child] += used;
                    held.push((reservation, used));
                }
                if held.len() > 2 {
                    let (reservation, used) = held.remove(0);
                    reservation.settle(tokens(used));
                }
            }
            proptest::prop_assert!(spent.iter().sum::<u64>() <= 200);
            proptest::prop_assert!(spent.iter().all(|spent| *spent <= 120));
        }
    }
}
