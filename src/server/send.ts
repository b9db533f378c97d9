import type { ServerResponse } from 'node:http';
import type { Answer } from './handlers.ts';
import type { Window } from './limits/limiter.ts';
import { rateLimitHeaders } from './response-headers.ts';

type Headers = Readonly<Record<string, string>>;

/** Sends an answer with the caller's window and `more` headers; the answer's own are stronger. */
export function send(response: ServerResponse, answer: Answer, window: Window, more: Headers): void {
  const { status, headers, body, encoding = 'utf8' } = answer;
  const lines: string[] = [];
  if (body.length > 0) {
    lines.push(
      'Content-Type',
      'application/json',
      'Content-Length',
      String(Buffer.byteLength(body, encoding)),
    );
  }
  addLines(lines, rateLimitHeaders(window), more);
  addLines(lines, more, headers);
  addLines(lines, headers);
  response.writeHead(status, lines).end(body, encoding);
}

function addLines(lines: string[], headers: Headers, stronger: Headers = {}): void {
  for (const name in headers) if (!(name in stronger)) lines.push(name, headers[name] ?? '');
}
