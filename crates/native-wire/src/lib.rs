//! What the v1 door and the host door have in common on the wire: sessions, prompts, answers.
//!
//! **What**: the bodies of answers, made of what the runtime tells; texts, words and lists that
//! hold their limits; what prompts bring along; answers of people.
//! **Knows** `protocol`, `runtime-api`.
//! **Never** knows a transport, a route or an error's form: what is wrong is a sentence that begins
//! with the field.
#![deny(missing_docs)]

mod answer;
mod body;
mod event;
pub mod limited;
mod prompt;

pub use answer::AnswerRequest;
pub use body::{
    Accepted, Checkpoint, Checkpoints, Command, Commands, FilesBack, Interrupted, KeptPath,
    Messages, Rewound, Session, SessionSpending, Sessions, Spending, State, Taken, Task, TaskKind,
    TaskStatus, Tasks, Undone,
};
pub use event::{OUTPUT_BYTES_MAX, trimmed};
pub use prompt::{ATTACHMENTS_MAX, Attachment, PROMPT_BYTES_MAX, parts};
