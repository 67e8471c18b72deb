//! Facts by command: usage, mode, model, permissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use driver_api::Model;
use policy::{Layer, Rule};
use protocol::{EventBody, EventKind, Mode, Refusal, Seq, Usage};
use runtime_api::Error;

use super::super::Session;
use super::refused;
use crate::engine::stored::{self, Reading};

/// How many rules of a kind an answer names, per layer.
const RULES_SHOWN: usize = 50;

/// What calls of one kind used.
#[derive(Default)]
struct Sum {
    calls: u64,
    usage: Usage,
    cost_usd: f64,
    /// Calls whose price is not known.
    unpriced: u64,
}

impl Session {
    /// Resolves the session's model, as far as the policy lets it.
    pub(super) fn model_now(&self) -> Result<Arc<dyn Model>, Refusal> {
        let model = self.services.options.models.resolve(self.state.model_now())?;
        self.policy.check_model(&model.info().id)?;
        Ok(model)
    }

    pub(super) async fn usage_facts(&mut self) -> Result<String, Error> {
        self.flush().await.map_err(refused)?;
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        let (mut steps, mut others) = (0, 0);
        let store = Arc::clone(&self.services.options.store);
        let mut reading = Reading::new(Seq(1), self.state.seq);
        while let Some(page) = reading.page(&*store, &self.id).await.map_err(stored::refused)? {
            for row in page.iter().filter(|row| row.kind == EventKind::Usage) {
                let Ok(EventBody::Usage(used)) = EventBody::decode(row.kind, &row.body) else {
                    continue;
                };
                match used.purpose {
                    None => steps += 1,
                    Some(_) => others += 1,
                }
                let model = used.model.unwrap_or_else(|| "an unnamed model".to_owned());
                let sum = sums.entry(model).or_default();
                sum.calls += 1;
                sum.usage += used.usage;
                sum.cost_usd += used.cost_usd.unwrap_or_default();
                sum.unpriced += u64::from(used.cost_usd.is_none());
            }
        }
        if sums.is_empty() {
            return Ok("No model was asked in this session yet.".to_owned());
        }
        let mut text = format!(
            "This session: {}, {} for summaries, {}\n",
            stdx::plural(steps, "step"),
            stdx::plural(others, "model call"),
            stdx::plural(self.state.prompts, "prompt")
        );
        for (model, sum) in &sums {
            text.push_str(&line_of(model, sum));
        }
        let total: f64 = sums.values().map(|sum| sum.cost_usd).sum();
        let is_whole = sums.values().all(|sum| sum.unpriced == 0);
        text.push_str(&match is_whole {
            true => format!("Cost: ${total:.4}"),
            false => format!("Cost: ${total:.4} as far as prices are known"),
        });
        Ok(text)
    }

    pub(super) fn mode_facts(&self) -> String {
        let modes: Vec<&str> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
        let mut text =
            format!("The mode is {}; the modes are {}.", self.state.mode, modes.join(", "));
        if let Some((layer, mode)) = self.policy.locked_mode() {
            text.push_str(&format!(" The {layer} lock it to {mode}."));
        }
        text
    }

    pub(super) fn model_facts(&self) -> String {
        let model = self.services.options.models.resolve(&self.state.model).ok();
        let window = model.and_then(|model| model.info().context_window);
        let reads = match window {
            Some(window) => format!("; it reads {window} tokens"),
            None => String::new(),
        };
        format!("The model is {}{reads}.", self.state.model)
    }

    pub(super) fn permission_facts(&self) -> String {
        let mut text = format!("Mode: {}\n", self.state.mode);
        let mut has_rules = false;
        for layer in self.policy.layers() {
            let lines = lines_of(layer);
            if !lines.is_empty() {
                has_rules = true;
                text.push_str(&format!("{} ({}):\n{lines}", layer.name, layer.name.as_str()));
            }
        }
        if !has_rules {
            text.push_str("No layer has rules: the mode alone decides.\n");
        }
        let locks = self.policy.locked_keys();
        if !locks.is_empty() {
            text.push_str(&format!("Locked: {}\n", locks.join(", ")));
        }
        text.push_str("Stronger layers come first; a deny of any layer wins.");
        text
    }
}

fn line_of(model: &str, sum: &Sum) -> String {
    // What was thought is part of what was written.
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } =
        sum.usage;
    format!(
        "  {model}: {}, {input_tokens} tokens in, {output_tokens} out, {cache_read_tokens} read \
         from a cache, {cache_write_tokens} written to one, ${:.4}\n",
        stdx::plural(sum.calls, "call"),
        sum.cost_usd
    )
}

fn lines_of(layer: &Layer) -> String {
    let mut text = String::new();
    let kinds = [("deny", &layer.deny), ("ask", &layer.ask), ("allow", &layer.allow)];
    for (kind, rules) in kinds {
        for rule in rules.iter().take(RULES_SHOWN) {
            text.push_str(&format!("  {kind:<5} {}\n", shown(rule)));
        }
        if rules.len() > RULES_SHOWN {
            text.push_str(&format!("  {kind:<5} and {} more\n", rules.len() - RULES_SHOWN));
        }
    }
    text
}

fn shown(rule: &Rule) -> String {
    rule.to_string()
}
