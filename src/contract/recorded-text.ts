/** What `GET /requests` and the log show instead of a secret (docs/testing.md). */
export const REDACTED = '[redacted]';

/** How many requests `GET /requests` and the page show at most. The server keeps fewer if these need much memory. */
export const MAX_RECORDED_REQUESTS = 1_000;

/** How many of these requests can be from pages that may not use the service. So no such page can fill the log. */
export const MAX_FOREIGN_REQUESTS = 20;
