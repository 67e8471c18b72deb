curl -X POST http://localhost:3100/api/v1/cortex/sessions/ses-abc123/message \
  -H "Content-Type: application/json" \
  -d "{\"message\": \"what is in this screenshot?\", \"images\": [{\"data\": \"$(base64 -i shot.png)\", \"mimeType\": \"image/png\"}]}"
