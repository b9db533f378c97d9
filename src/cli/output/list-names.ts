import { quoteIfBlank, sanitizeForTerminal } from './sanitize.ts';
import { cutToWidth } from './width.ts';

/** How many names a message lists, and the maximum width of a name in terminal columns. */
const MAX_NAMES = 8;
const MAX_NAME_WIDTH = 24;

/** Names of fields, or their values, as a message shows them: `id, status and 3 more`. */
export function listNames(names: readonly string[]): string {
  const shown = names
    .slice(0, MAX_NAMES)
    .map((name) => cutToWidth(quoteIfBlank(sanitizeForTerminal(name)), MAX_NAME_WIDTH));
  const others = names.length - shown.length;
  return shown.join(', ') + (others > 0 ? ` and ${others} more` : '');
}
