curl -X POST http://localhost:3100/api/v1/cortex/sessions/ses-abc123/message \
  -H "Content-Type: application/json" \
  -d '{
    "message": "Summarize the workspace as JSON",
    "responseFormat": {
      "name": "summary",
      "schema": {
        "type": "object",
        "properties": { "fileCount": {"type": "integer"}, "languages": {"type": "array", "items": {"type": "string"}} },
        "required": ["fileCount", "languages"],
        "additionalProperties": false
      }
    }
  }'
