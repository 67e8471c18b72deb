//! Events on the wire: outputs are cut to what viewers are sent.

use protocol::Block;
use protocol::event::ToolResult;

/// Bytes of a tool's output in an event that is sent; the transcript has the whole.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Returns a result whose output is cut to what an event may hold; none where it fits.
pub fn trimmed(result: &ToolResult) -> Option<ToolResult> {
    let size = |block: &Block| match block {
        Block::Text { text, .. } => text.len(),
        Block::Image(image) => image.data.len(),
        _ => 0,
    };
    if result.output.iter().map(size).sum::<usize>() <= OUTPUT_BYTES_MAX {
        return None;
    }
    let mut left = OUTPUT_BYTES_MAX;
    let mut output = Vec::new();
    for block in &result.output {
        let bytes = size(block);
        let kept = match block {
            _ if bytes <= left => block.clone(),
            Block::Text { text, .. } => {
                let end = (0..=left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                Block::text(text.get(..end).unwrap_or_default())
            }
            Block::Image(image) => {
                let mime_type = &image.mime_type;
                Block::text(format!("[{mime_type} left out here; the messages have it]"))
            }
            other => other.clone(),
        };
        left = left.saturating_sub(size(&kept));
        if !kept.is_blank() {
            output.push(kept);
        }
    }
    Some(ToolResult { output, truncated: true, ..result.clone() })
}
