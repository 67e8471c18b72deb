//! OpenAI Chat Completions, and every server that speaks it: `POST {base}/chat/completions`.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;
