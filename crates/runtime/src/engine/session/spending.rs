//! Limits of a turn: money, tokens, time, going round in circles.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Model, ModelRequest, StoreError};
use protocol::Usage;
use protocol::event::{ContextAdded, PauseKind};
use protocol::{Timestamp, TurnEnd};
use runtime_api::Allowance;

use super::Session;
use crate::engine::purse::{Amount, Purse, Short};
use crate::kernel::{CallStage, Command, Ending, TOLD_AT, Turn};

/// The fewest tokens that are worth asking for: a shorter answer is cut before it says anything.
const OUTPUT_MIN: u64 = 1_024;

/// What a model writes at most where its own limit is not known.
const OUTPUT_USUAL: u64 = 8_192;

/// Bytes of text per token, about; low, so that the estimate is rather too high.
const BYTES_PER_TOKEN: u64 = 3;

/// What the model is told when it repeats itself.
const REPEATED: &str = "The same call has now brought the same result three times in this turn, \
     with nothing new in between. Doing it again will not change that: do something else, or say \
     what stands in the way.";

impl Session {
    /// Sets aside what the next model call may cost, and bounds its answer by what is left.
    /// False when nothing is left: the turn waits for a person then, or is over.
    pub(super) async fn reserve(
        &mut self,
        model: &dyn Model,
        request: &mut ModelRequest,
    ) -> Result<bool, StoreError> {
        let prompt = self.prompt_tokens(request);
        self.reserve_for(model, request, prompt).await
    }

    /// Does that for a request of so many tokens.
    pub(super) async fn reserve_for(
        &mut self,
        model: &dyn Model,
        request: &mut ModelRequest,
        prompt: u64,
    ) -> Result<bool, StoreError> {
        self.live.reservation = None;
        let Some(purse) = self.purse().await? else { return Ok(true) };
        let info = model.info();
        let most = info.max_output.unwrap_or(OUTPUT_USUAL);
        let usual = request.max_output.map_or(most, |asked| asked.min(most));
        let (usd_left, tokens_left) = purse.left();
        let mut output = tokens_left.map_or(usual, |left| usual.min(left.saturating_sub(prompt)));
        let mut usd = 0.0;
        if purse.limits_money() {
            let Some(price) = info.price else {
                let message = format!(
                    "a budget in dollars is set and the price of {} is not known: give its price \
                     in the settings, or set a budget in tokens",
                    info.id
                );
                self.apply_sure(Command::End(Ending::error("price_unknown", message)));
                self.turn_is_over();
                return Ok(false);
            };
            let prompt_usd = of_tokens(prompt, price.input.max(price.cache_write));
            let rest = usd_left.unwrap_or_default() - prompt_usd;
            output = output.min(affordable(rest, price.output));
            usd = prompt_usd + of_tokens(output, price.output);
        }
        if output < OUTPUT_MIN.min(usual) {
            // Reserving what is too little tells which purse is short.
            let usd = match info.price {
                Some(price) if purse.limits_money() => {
                    of_tokens(prompt, price.input) + of_tokens(OUTPUT_MIN.min(usual), price.output)
                }
                _ => 0.0,
            };
            let tokens = prompt.saturating_add(OUTPUT_MIN.min(usual));
            let short = purse.reserve(Amount { usd, tokens }).err();
            self.is_short(short);
            return Ok(false);
        }
        let amount = Amount { usd, tokens: prompt.saturating_add(output) };
        match purse.reserve(amount) {
            Ok(reservation) => self.live.reservation = Some(reservation),
            Err(short) => {
                self.is_short(Some(short));
                return Ok(false);
            }
        }
        if output < usual {
            request.max_output = Some(output);
        }
        Ok(true)
    }

    /// Spends what a model call really used.
    pub(super) fn settle_spending(&mut self, usage: &Usage, cost_usd: Option<f64>) {
        if let Some(reservation) = self.live.reservation.take() {
            let tokens = usage.prompt_tokens().saturating_add(usage.output_tokens);
            reservation.settle(Amount { usd: cost_usd.unwrap_or_default(), tokens });
        }
    }

    /// Returns the turn's purse, beneath the session's and the day's; none where nothing is
    /// limited.
    async fn purse(&mut self) -> Result<Option<Arc<Purse>>, StoreError> {
        let budget = self.agent.limits.budget;
        let is_limited = [budget.turn, budget.session, budget.day]
            .iter()
            .any(|allowance| allowance.usd.is_some() || allowance.tokens.is_some());
        let Some(turn) = self.state.turn.as_ref().filter(|_| is_limited) else { return Ok(None) };
        let raises = turn.raises;
        let turn_spent = amount(&turn.usage, turn.cost_usd.unwrap_or_default());
        let session_spent = amount(&self.state.usage, self.state.cost_usd);
        let services = Arc::clone(&self.services);
        if budget.day != Allowance::default() {
            self.flush().await?;
            let now = services.options.clock.now();
            let spent = services.day.spent(&*services.options.store, now).await?;
            services.day.purse().set_spent(spent);
        }
        let day = Some((Arc::clone(services.day.purse()), raised(budget.day, raises)));
        let session = Purse::new("session", day, raised(budget.session, raises), session_spent);
        let parent = Some((session, Allowance::default()));
        let purse = Purse::new("turn", parent, raised(budget.turn, raises), turn_spent);
        Ok(Some(purse))
    }

    /// Estimates what a request has, in tokens; rather too many than too few.
    fn prompt_tokens(&self, request: &ModelRequest) -> u64 {
        if self.state.context_tokens > 0 {
            return self.state.context_tokens + self.state.context_grown / BYTES_PER_TOKEN;
        }
        let tools = request.tools.iter().map(|tool| {
            tool.description.len() + tool.input_schema.to_string().len() + tool.name.len()
        });
        let fixed = (request.system.len() + tools.sum::<usize>()) as u64;
        (fixed + self.state.context_grown) / BYTES_PER_TOKEN
    }

    /// Asks whether a turn whose budget is used up goes on, or ends it.
    fn is_short(&mut self, short: Option<Short>) {
        let what = match short {
            Some(Short { of, what }) => format!("this {of} has used {what}"),
            None => "nothing is left".to_owned(),
        };
        if self.agent.is_attended {
            let question = format!(
                "The budget is reached: {what}, and the next model call may need more than is \
                 left. Go on with the same amount once more?"
            );
            self.pause(PauseKind::Budget, question);
            return;
        }
        let message = Some(format!(
            "the budget is reached: {what}, and the next model call may need more than is left"
        ));
        self.apply_sure(Command::End(Ending { message, ..Ending::of(TurnEnd::Budget) }));
        self.turn_is_over();
    }

    /// Returns how long the turn may still take; none while it waits for a person or where time
    /// is not limited.
    pub(super) fn turn_time_left(&self) -> Option<Duration> {
        let limit = self.agent.limits.turn_ms;
        let turn = self.state.turn.as_ref().filter(|_| limit > 0)?;
        if turn.waiting_since.is_some() || turn.is_done {
            return None;
        }
        let spent = worked_ms(turn, self.services.options.clock.now());
        let raised = limit.saturating_mul(u64::from(turn.raises) + 1);
        Some(Duration::from_millis(raised.saturating_sub(spent)))
    }

    /// Stops a turn that has taken too long.
    pub(super) fn time_is_over(&mut self) {
        let limit = Duration::from_millis(self.agent.limits.turn_ms);
        let message = format!("the time limit of {} was reached", stdx::duration(limit));
        let ending = Ending { message: Some(message), ..Ending::of(TurnEnd::Time) };
        self.stop_with(ending);
    }

    /// Tells the model that it repeats itself.
    pub(super) fn tell_repetition(&mut self) {
        let Some(turn) = &self.state.turn else { return };
        let (highest, step) = (turn.repeats.highest(), turn.step);
        let is_over = turn.calls.iter().all(|call| call.stage == CallStage::Over);
        if highest == TOLD_AT && is_over && self.live.repetition_told != Some(step) {
            self.live.repetition_told = Some(step);
            let (source, text) = ("narthex".to_owned(), REPEATED.to_owned());
            self.apply_sure(Command::AddContext(ContextAdded { source, text, goes_on: false }));
        }
    }

    /// Asks a person about a turn that repeats itself although the model was told, or ends it.
    /// True when it did either.
    pub(super) fn is_going_in_circles(&mut self) -> bool {
        let Some(turn) = &self.state.turn else { return false };
        if turn.repeats.highest() <= TOLD_AT || turn.is_done || turn.pause.is_some() {
            return false;
        }
        let count = turn.repeats.highest();
        if self.agent.is_attended {
            let question = format!(
                "The model has made the same call {count} times, with the same result each time, \
                 although it was told so. Let it go on?"
            );
            self.pause(PauseKind::Repetition, question);
        } else {
            self.apply_sure(Command::End(Ending::paused(PauseKind::Repetition)));
            self.turn_is_over();
        }
        true
    }
}

/// Returns how long a turn has worked, waiting for people not counted, in milliseconds.
fn worked_ms(turn: &Turn, now: Timestamp) -> u64 {
    let since = u64::try_from(now.0 - turn.started_at.0).unwrap_or(0);
    since.saturating_sub(turn.waited_ms)
}

fn raised(allowance: Allowance, raises: u32) -> Allowance {
    let times = u64::from(raises) + 1;
    Allowance {
        usd: allowance.usd.map(|usd| usd * f64::from(raises + 1)),
        tokens: allowance.tokens.map(|tokens| tokens.saturating_mul(times)),
    }
}

fn amount(usage: &Usage, usd: f64) -> Amount {
    Amount { usd, tokens: usage.prompt_tokens().saturating_add(usage.output_tokens) }
}

#[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn of_tokens(count: u64, per_million: f64) -> f64 {
    count as f64 * per_million / 1e6
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float beyond the range of u64 is cut to its ends, which is what is wanted"
)]
fn affordable(usd: f64, per_million: f64) -> u64 {
    if usd <= 0.0 {
        return 0;
    }
    if per_million <= 0.0 {
        return u64::MAX;
    }
    (usd * 1e6 / per_million) as u64
}
