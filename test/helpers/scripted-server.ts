import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenOnLoopback } from './listen.ts';

export type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => unknown;
/** `body` is the body of the request. */
export type BodyHandler = (...args: [...Parameters<Handler>, body: string]) => unknown;

/** An HTTP server on a free loopback port that responds with `handler`; `count` is 1 for the first request. */
export async function scriptedServer(handler: BodyHandler) {
  const requests: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = [];
  const server = createServer(async (request, response) => {
    const record = {
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body: '',
    };
    requests.push(record);
    const count = requests.length;
    for await (const chunk of request) record.body += chunk;
    handler(request, response, count, record.body);
  });
  const origin = `http://127.0.0.1:${await listenOnLoopback(server)}`;
  /** `url` is the base URL, with /v1. */
  return { origin, url: `${origin}/v1`, requests };
}

/** Sends a JSON response. A body that is a string is sent unchanged. */
export function reply(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string | string[]> = {},
): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

/** Sends an error response, with an Error of the API as its body. */
export function replyError(
  response: ServerResponse,
  status: number,
  code = 'a_code',
  headers: Record<string, string | string[]> = {},
): void {
  reply(response, status, { code, message: 'no', status }, headers);
}
