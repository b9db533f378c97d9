/** What `GET /requests` shows instead of a secret (docs/service.md 13.1). */
export const REDACTED = '[redacted]';

/** The longest beginning of a body that `GET /requests` shows, in bytes (docs/service.md 13.1). */
export const MAX_RECORDED_BODY = 16 * 1024;
