//! The model's window by command: what fills it, and taking a summary back.

use protocol::{EventBody, Seq};
use runtime_api::Error;

use super::super::Session;
use super::refused;
use crate::engine::{stored, weight};
use crate::kernel::Command;

impl Session {
    pub(super) async fn context_facts(&mut self) -> Result<String, Error> {
        let (size, fixed) = self.size().await.map_err(refused)?;
        let tools = weight::tools(&self.live.offer.specs);
        let Some(transcript) = &self.live.transcript else { return Ok(String::new()) };
        let messages = transcript.so_far();
        let bytes = weight::messages(&messages);
        let info = self.info();
        let mut text = format!("Model: {}\n", self.state.model);
        let of = match (info.context_window, info.context_percent()) {
            (Some(window), Some(percent)) => format!(" of {window} ({percent} %)"),
            _ => "; how many the model reads is not known".to_owned(),
        };
        text.push_str(&format!("In use: about {size} tokens{of}\n"));
        let about = |part: u64| share_of(part, size, fixed + bytes);
        text.push_str(&format!("  instructions  about {}\n", about(fixed.saturating_sub(tools))));
        text.push_str(&format!("  tools         about {}\n", about(tools)));
        let count = stdx::plural(messages.len() as u64, "message");
        text.push_str(&format!("  conversation  about {} in {count}\n", about(bytes)));
        text.push_str(&self.summary_facts().await?);
        let settings = self.agent.compaction;
        text.push_str(&match settings.is_automatic {
            true => format!("It is summarised by itself at {} %.", settings.at_percent),
            false => "It is not summarised by itself; /compact does it.".to_owned(),
        });
        Ok(text)
    }

    async fn summary_facts(&mut self) -> Result<String, Error> {
        let Some(at) = self.state.view.compaction().map(|it| it.at) else {
            return Ok("Nothing of it is summarised.\n".to_owned());
        };
        let store = &self.services.options.store;
        let row = store.read(&self.id, at, 1).await.map_err(stored::refused)?.pop();
        let Some(row) = row else { return Ok(String::new()) };
        let Ok(EventBody::Compacted(compacted)) = EventBody::decode(row.kind, &row.body) else {
            return Ok(String::new());
        };
        let date: String = row.at.to_string().chars().take(16).collect();
        let by = if compacted.automatic { "by itself" } else { "by hand" };
        Ok(format!(
            "The older part of it was summarised {by} on {}: about {} tokens before, about {} \
             after. /uncompact brings the original back.\n",
            date.replace('T', " "),
            compacted.before,
            compacted.after
        ))
    }

    /// Takes the newest summary back, unless what it stands for does not fit.
    pub(super) async fn uncompact(&mut self) -> Result<String, Error> {
        let Some(at) = self.state.view.compaction().map(|it| it.at) else {
            return Ok("Nothing was done: no summary stands in this conversation.".to_owned());
        };
        let (size, fixed) = self.size().await.map_err(refused)?;
        let now = self.live.transcript.as_ref().map_or(0, |it| weight::messages(&it.so_far()));
        let whole = self.bytes_without(at).await?;
        let after = share_of(fixed + whole, size, fixed + now);
        let model = self.model_now()?;
        let window = model.info().context_window;
        if let Some(window) = window
            && after >= window
        {
            return Ok(format!(
                "Nothing was done: the original has about {after} tokens and {} reads {window}.",
                model.info().id
            ));
        }
        self.apply(Command::Uncompact { after })?;
        let mut text = format!(
            "The summary was taken back: the model reads the original again, about {after} tokens."
        );
        let settings = self.agent.compaction;
        let at = u128::from(settings.at_percent);
        let is_near = window.is_some_and(|it| u128::from(after) * 100 >= u128::from(it) * at);
        if settings.is_automatic && is_near {
            text.push_str(&format!(
                " That is above {at} % of the window: with the next prompt it is summarised again."
            ));
        }
        Ok(text)
    }

    /// Returns the bytes of the messages as they are without a compaction.
    async fn bytes_without(&mut self, at: Seq) -> Result<u64, Error> {
        self.flush().await.map_err(refused)?;
        let mut state = self.state.clone();
        state.view.uncompacted(state.seq, at);
        let store = &*self.services.options.store;
        let read = stored::transcript(store, &self.id, &state).await;
        let (transcript, _) = read.map_err(stored::refused)?;
        Ok(weight::messages(&transcript.so_far()))
    }
}

/// Returns bytes as tokens, on the scale on which `whole` bytes are `size` tokens.
fn share_of(bytes: u64, size: u64, whole: u64) -> u64 {
    let scaled = u128::from(bytes) * u128::from(size) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
