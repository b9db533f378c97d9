/** What `GET /requests` shows instead of a secret (docs/testing.md). */
export const REDACTED = '[redacted]';

/** How many requests `GET /requests` and the page show. The server keeps fewer if their headers and bodies are large. */
export const MAX_RECORDED_REQUESTS = 1_000;

/** How many requests of pages that may not use the service `GET /requests` shows, so that no page can fill the log. */
export const MAX_FOREIGN_REQUESTS = 20;
