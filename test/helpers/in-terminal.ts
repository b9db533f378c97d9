import { runInTerminal, type TerminalOptions } from './context.ts';
import { type Handler, reply, scriptedServer } from './scripted-server.ts';

/** Runs `main()` against a server with this handler. */
export async function runAgainst(handler: Handler, argv: readonly string[], options: TerminalOptions = {}) {
  const server = await scriptedServer(handler);
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key', ...options.env };
  return { ...(await runInTerminal(argv, { ...options, env })), server };
}

/** Responds to every request with status 200 and this body as JSON. A string is sent unchanged. */
export const respondWith =
  (body: unknown, headers?: Record<string, string>): Handler =>
  (_, response) =>
    reply(response, 200, body, headers);
