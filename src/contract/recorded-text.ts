/** What `GET /requests` shows instead of a secret (docs/testing.md). */
export const REDACTED = '[redacted]';

/** The longest beginning of a body that `GET /requests` shows, in bytes (docs/testing.md). */
export const MAX_RECORDED_BODY = 16 * 1024;

/** How many requests `GET /requests` and the page show. The server keeps fewer if their headers and bodies are large. */
export const MAX_REQUESTS = 1_000;

/** How many requests of pages that may not use the service `GET /requests` shows, so that no page can fill the log. */
export const MAX_FOREIGN = 20;
