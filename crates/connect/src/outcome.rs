//! What a call brought, as a model reads it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driver_api::{ToolContext, ToolOutcome};
use protocol::{Block, Image};
use serde_json::Value;

use crate::spill;
use crate::words::{cut, head, tail};

/// The most characters of one result that a model reads: as for every other tool.
const OUTPUT_CHARS_MAX: usize = 30_000;

/// Room for the line that names what was left out.
const OMISSION_CHARS_MAX: usize = 600;

/// The largest image: what providers take.
const IMAGE_BYTES_MAX: usize = 5 << 20;

/// Most images of one result: what a request to a provider may hold beside all others.
const IMAGES_MAX: usize = 10;

/// Most blocks of one result that are looked at.
const PARTS_MAX: usize = 1_000;

/// The images that providers read.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Turns the result of `tools/call` into an outcome.
pub(crate) async fn outcome(result: &Value, context: &ToolContext) -> ToolOutcome {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    let mut parts = Parts { images: context.images, ..Parts::default() };
    let content = result.get("content").and_then(Value::as_array);
    for block in content.into_iter().flatten().take(PARTS_MAX) {
        parts.take(block);
    }
    let has_text = parts.blocks.iter().any(|block| !block.is_blank());
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    // A server that gives both gives the same twice.
    if let Some(structured) = structured.filter(|_| !has_text) {
        parts.text(format!("{structured:#}"));
    }
    if parts.blocks.is_empty() {
        parts.text("(no output)".to_owned());
    }
    limited(parts.blocks, is_error, context).await
}

/// What has been read of a result.
#[derive(Debug, Default)]
struct Parts {
    blocks: Vec<Block>,
    images: bool,
    count: usize,
}

impl Parts {
    fn take(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => self.text(text("text").to_owned()),
            "image" => self.data("image", text("mimeType"), text("data")),
            "audio" => self.data("audio", text("mimeType"), text("data")),
            "resource_link" => {
                let name = Some(text("title")).filter(|title| !title.is_empty());
                let name = name.unwrap_or_else(|| text("name"));
                let mut line = format!("[resource {}: {}", cut(name, 200), cut(text("uri"), 2_000));
                for more in [text("mimeType"), text("description")] {
                    if !more.is_empty() {
                        line.push_str(&format!(", {}", cut(more, 500)));
                    }
                }
                line.push(']');
                self.text(line);
            }
            "resource" => self.resource(block.get("resource").unwrap_or(&Value::Null)),
            kind => self.text(format!("[content of the unknown kind '{}']", cut(kind, 80))),
        }
    }

    fn resource(&mut self, resource: &Value) {
        let text = |key: &str| resource.get(key).and_then(Value::as_str);
        let uri = cut(text("uri").unwrap_or_default(), 2_000);
        match (text("text"), text("blob")) {
            (Some(words), _) => self.text(format!("[resource {uri}]\n{words}")),
            (None, Some(blob)) => {
                self.text(format!("[resource {uri}]"));
                let kind = text("mimeType").unwrap_or("application/octet-stream");
                self.data("data", kind, blob);
            }
            (None, None) => self.text(format!("[resource {uri}, empty]")),
        }
    }

    fn text(&mut self, text: String) {
        // Providers refuse empty blocks.
        if !text.trim().is_empty() {
            self.blocks.push(Block::text(text));
        }
    }

    /// Adds an image that the model can read, else a line that says why it is not there.
    fn data(&mut self, what: &str, mime_type: &str, data: &str) {
        let bytes = data.len() / 4 * 3;
        let size = stdx::bytes(bytes as u64);
        let mime_type = cut(mime_type, 80);
        let is_image = IMAGE_TYPES.contains(&mime_type.as_str());
        let reason = if !is_image {
            "which cannot be shown here"
        } else if !self.images {
            "and the model in use does not read images"
        } else if bytes > IMAGE_BYTES_MAX {
            "which is larger than models take"
        } else if self.count == IMAGES_MAX {
            "left out: there are too many images"
        } else if STANDARD.decode(data).is_err() {
            "which is not base64"
        } else {
            self.count += 1;
            self.blocks.push(Block::Image(Image { mime_type, data: data.to_owned() }));
            return;
        };
        self.text(format!("[{what}, {mime_type}, {size}, {reason}]"));
    }
}

/// Keeps the text within its limit: head and tail stay, the whole goes into a file.
async fn limited(blocks: Vec<Block>, is_error: bool, context: &ToolContext) -> ToolOutcome {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let count: usize = texts.iter().map(|text| text.chars().count()).sum();
    if count <= OUTPUT_CHARS_MAX {
        return ToolOutcome { content: blocks, is_error, ..ToolOutcome::default() };
    }
    let whole = texts.join("\n");
    let kept = (OUTPUT_CHARS_MAX - OMISSION_CHARS_MAX) / 2;
    let left_out = whole.chars().count() - 2 * kept;
    let (note, spill) = match spill::keep(&context.spill_dir, context.call.as_str(), &whole).await {
        Ok(path) => {
            let path = path.display().to_string();
            // A path that long would break the limit; it is in the result's own field all the same.
            let place =
                if path.len() < OMISSION_CHARS_MAX - 120 { path.as_str() } else { "a file" };
            let note = format!("the whole output is in {place} (read_file reads on)");
            (note, Some(path))
        }
        Err(error) => (cut(&format!("the rest could not be kept: {error}"), 300), None),
    };
    let (first, last) = (head(&whole, kept), tail(&whole, kept));
    let text = format!("{first}\n… {left_out} characters left out; {note} …\n{last}");
    let images = blocks.into_iter().filter(|block| matches!(block, Block::Image(_)));
    let content = std::iter::once(Block::text(text)).chain(images).collect();
    ToolOutcome { content, is_error, truncated: true, spill, ..ToolOutcome::default() }
}
