//! Gemini: `POST {base}/v1beta/models/{model}:streamGenerateContent?alt=sse`.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;
