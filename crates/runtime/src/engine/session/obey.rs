//! Obeying slash commands: what they do is said as the text of their turn.

mod back;
mod facts;
mod window;

use driver_api::StoreError;
use protocol::{Block, RefusalCode, TurnEnd};
use runtime_api::Error;

use super::Session;
use crate::engine::slash::{self, Slash};
use crate::kernel::{Command, Ending, text_of};

/// What a command says; none where it is under way.
type Said = Result<Option<String>, Error>;

impl Session {
    /// Returns the command that a prompt is, if it is one.
    pub(super) fn command_of(&self, content: &[Block]) -> Option<String> {
        slash::read(&text_of(content))
    }

    /// Obeys the command that the running turn is.
    pub(super) async fn obey(&mut self) -> Result<(), StoreError> {
        // What the turn before left of the files is captured first: it may have to be undone.
        if self.live.recording.is_some() {
            return Ok(());
        }
        let command = self.state.turn.as_ref().and_then(|turn| turn.command.clone());
        let said = match slash::parse(&command.unwrap_or_default()) {
            Ok(slash) => self.obey_parsed(slash).await,
            Err(told) => Ok(Some(told)),
        };
        match said {
            Ok(Some(text)) => self.answer_command(text),
            Ok(None) => {}
            Err(Error::Refusal(refusal)) => {
                let is_locked = matches!(
                    refusal.code,
                    RefusalCode::LockedByPolicy | RefusalCode::ModelNotAllowed
                );
                let reason = if is_locked { TurnEnd::Denied } else { TurnEnd::Completed };
                let text = Some(format!("Nothing was done: {}", refusal.message));
                let (code, message) = match is_locked {
                    true => (Some(refusal.code.as_str().to_owned()), Some(refusal.message)),
                    false => (None, None),
                };
                self.end_command(Ending { code, message, text, ..Ending::of(reason) });
            }
            Err(Error::Fault(fault)) => {
                tracing::error!(session = %self.id, %fault, "obey a command");
                let message = "the command failed inside; see the log of Narthex";
                self.end_command(Ending::error("internal", message));
            }
        }
        Ok(())
    }

    async fn obey_parsed(&mut self, slash: Slash) -> Said {
        match slash {
            Slash::Compact { focus } => {
                let model = self.model_now()?;
                Ok(self.compact_by_hand(model, focus).await.map_err(refused)?)
            }
            Slash::Uncompact => Ok(Some(self.uncompact().await?)),
            Slash::Context => Ok(Some(self.context_facts().await?)),
            Slash::Usage => Ok(Some(self.usage_facts().await?)),
            Slash::Undo { is_forced } => Ok(Some(self.undo_by_command(is_forced).await?)),
            Slash::Rewind { to: Some((point, scope)) } => {
                Ok(Some(self.rewind_by_command(&point, scope).await?))
            }
            Slash::Rewind { to: None } => Ok(Some(self.list_points().await?)),
            Slash::Mode(None) => Ok(Some(self.mode_facts())),
            Slash::Mode(Some(mode)) => {
                self.set_mode(mode)?;
                Ok(Some(format!("The mode is {mode} now.")))
            }
            Slash::Model(None) => Ok(Some(self.model_facts())),
            Slash::Model(Some(name)) => {
                self.set_model(&name)?;
                Ok(Some(format!("The model is {} now.", self.state.model)))
            }
            Slash::Permissions => Ok(Some(self.permission_facts())),
            Slash::Help => Ok(Some(slash::help())),
        }
    }

    /// Ends the running command with what it says.
    pub(super) fn answer_command(&mut self, text: String) {
        self.end_command(Ending { text: Some(text), ..Ending::of(TurnEnd::Completed) });
    }

    fn end_command(&mut self, ending: Ending) {
        // The budget may have ended the turn already, or a person may have to be asked.
        if self.state.turn.as_ref().is_some_and(|turn| turn.command.is_some()) {
            self.apply_sure(Command::End(ending));
            self.turn_is_over();
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the form that `map_err` asks for")]
fn refused(error: StoreError) -> Error {
    crate::engine::stored::told(&error)
}
