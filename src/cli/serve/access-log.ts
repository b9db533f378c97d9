import type { AccessLogEntry } from '../../server/app.ts';
import { formatCount } from '../output/format-count.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import type { CommandContext } from '../program/command.ts';

/** If nothing reads the log, requests are not logged while more than this many bytes are buffered. */
const MAX_LOG_BYTES = 2 ** 20;

/** The form of generated API keys. A client can send a key as its request id, or by mistake as part of a URL. */
const GENERATED_KEY = /pets_[\w-]{43}/g;

/** Returns a function that prints a line for each request to stderr, or an object with `--json` (docs/serve.md). */
export function createAccessLog({ console, stderr }: CommandContext): (entry: AccessLogEntry) => void {
  const { dim } = console.errorColours;
  let dropped = 0;

  return ({ time, id, client, keyName, method, url, status, milliseconds }) => {
    if (stderr.writableLength > MAX_LOG_BYTES) {
      dropped++;
      return;
    }
    if (dropped > 0)
      console.notice(`${formatCount(dropped, 'request')} not logged, because nothing read the output`);
    dropped = 0;
    const request = {
      time: new Date(time).toISOString(),
      id: withoutKey(id),
      ...(keyName !== undefined && { keyName }),
      client,
      method,
      url: withoutKey(url),
      status,
      milliseconds: Math.round(milliseconds * 10) / 10,
    };
    const parts = [
      request.time,
      request.id,
      keyName ?? '-',
      client,
      method,
      sanitizeForTerminal(request.url),
      status,
      `${request.milliseconds} ms`,
    ];
    console.event({ request }, dim(parts.join(' ')));
  };
}

const withoutKey = (text: string): string => text.replace(GENERATED_KEY, 'pets_…');
