//! The table: every route of this door.

use crate::operation::Operation;
use crate::request::{back, health, interaction, listing, prompt, session, setting, transcript};
use crate::{docs, feed, stream};

/// Returns every operation, in the order of the document.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all = health::operations();
    all.extend(session::operations());
    all.extend(setting::operations());
    all.extend(prompt::operations());
    all.extend(interaction::operations());
    all.extend(stream::operations());
    all.extend(feed::operations());
    all.extend(transcript::operations());
    all.extend(back::operations());
    all.extend(listing::operations());
    all.extend(docs::operations());
    all
}
