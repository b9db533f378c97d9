import { runInTerminal, type TerminalOptions } from './context.ts';
import { type Handler, reply, scriptedServer } from './scripted-server.ts';

/** Runs the program in this process, against a server that answers as the handler does. */
export async function runAgainst(handler: Handler, argv: readonly string[], options: TerminalOptions = {}) {
  const server = await scriptedServer(handler);
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key', ...options.env };
  return { ...(await runInTerminal(argv, { ...options, env })), server };
}

/** A server that answers every request with this JSON; a text is sent as it is. */
export const answering =
  (body: unknown, headers?: Record<string, string>): Handler =>
  (_, response) =>
    reply(response, 200, body, headers);
