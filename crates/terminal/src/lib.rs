//! A person at a terminal: what is drawn and read there, and a session under their eyes.
//!
//! **What**: both output streams and the input, foreign text made harmless, colours, diffs, the
//! cards that ask, the lines that tell of a turn; [`watch`], which ties them to a session; the
//! exit codes that come of it.
//! **Knows** `protocol`, whose events it shows, `runtime-api` and `stdx`; no command and no
//! settings.
//! **Never** decides: it hands on what a person or a program said. No character that came from
//! outside moves a cursor.

pub mod card;
mod console;
pub mod diff;
mod editor;
mod errands;
pub mod escape;
pub mod exit;
pub mod image;
mod input;
mod line;
mod number;
mod paint;
pub mod show;
mod spinner;
pub mod stops;
mod text;
pub mod tty;
pub mod watch;

pub use console::{Console, StreamFacts};
pub use exit::{Exit, Failure};
pub use input::{Ask, Forget, Heard, Input, LINE_BYTES_MAX, Reading, TEXT_BYTES_MAX, Words};
pub use number::{age, dollars, grouped, short, until};
pub use paint::{Color, Paint};
pub use show::{Form, OutputFormat};
pub use stops::{STOPS_WAITING, Stop, Stops};
pub use text::{TextForm, complaint, say_notice};
pub use watch::{Attendance, Desk, Watch};
