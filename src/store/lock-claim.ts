import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import * as z from 'zod/mini';
import { tryParseJson } from '../contract/json.ts';
import { StoreError } from './errors.ts';
import { errnoOf } from './files.ts';

/** Keeps a directory for one server. */
export interface Lock {
  /** Tells servers that are refused where this one is. */
  announce(url: string): void;
  release(): Promise<void>;
}

/** Done after so many milliseconds, or once the signal says that nobody waits any more. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<unknown>;

/** What a claim says to whoever connects: one line of JSON. */
export type Answer = z.infer<typeof Answer>;
const Answer = z.object({
  state: z.enum(['claiming', 'holding']),
  pid: z.optional(z.int().check(z.positive())),
  url: z.optional(z.string().check(z.maxLength(1000))),
});

/** A claim that others can see. */
export type Claim = Lock & {
  readonly name: string;
  /** From now on the directory is this process's. */
  hold(): void;
};

const SILENCE_MS = 1_000;
const MAX_ANSWER = 4096;

/**
 * Listens on `socket`, without keeping the process alive, and answers what the claim is. `remove` takes its name away
 * when it is released.
 *
 * @throws StoreError where the file system holds no sockets
 */
export async function serveClaim(claim: {
  directory: string;
  name: string;
  socket: string;
  remove: () => Promise<void>;
}): Promise<Claim> {
  const answer: Answer = { state: 'claiming', pid: process.pid };
  const guests = new Set<Socket>();
  const server = createServer((guest) => {
    guests.add(guest);
    // A guest has nothing to say, and a second to read.
    const patience = setTimeout(() => guest.destroy(), SILENCE_MS).unref();
    guest
      .on('error', () => {})
      .on('close', () => {
        clearTimeout(patience);
        guests.delete(guest);
      });
    guest
      .unref()
      .resume()
      .end(`${JSON.stringify(answer)}\n`);
  });
  try {
    await once(server.listen({ path: claim.socket, exclusive: true }), 'listening');
  } catch (error) {
    throw noSocket(error, claim.directory);
  }
  server.on('error', () => {}).unref();
  return {
    name: claim.name,
    hold() {
      answer.state = 'holding';
    },
    announce(url) {
      answer.url = url;
    },
    async release() {
      if (!server.listening) return;
      await claim.remove().catch(() => {});
      for (const guest of guests) guest.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

type Reply = Answer | 'dead' | 'silent' | 'hung up';

/**
 * Asks the claim behind a socket. `dead` where nobody listens there, and never will again; `silent` where somebody
 * does who gives no proper answer.
 */
export async function ask(path: string, sleep: Sleep): Promise<Exclude<Reply, 'hung up'>> {
  // A claim that is just being released hangs up on whoever waited to be let in: the next answer tells.
  for (let attempt = 1; attempt <= 3; attempt++) {
    const reply = await askOnce(path, sleep);
    if (reply !== 'hung up') return reply;
  }
  return 'silent';
}

async function askOnce(path: string, sleep: Sleep): Promise<Reply> {
  const socket = connect(path);
  const answered = new AbortController();
  try {
    return await Promise.race([
      replyOf(socket),
      sleep(SILENCE_MS, answered.signal).then(() => 'silent' as const),
    ]);
  } finally {
    answered.abort();
    socket.destroy();
  }
}

async function replyOf(socket: Socket): Promise<Reply> {
  let text = '';
  try {
    for await (const part of socket.setEncoding('utf8')) {
      text += part;
      if (text.includes('\n') || text.length > MAX_ANSWER) break;
    }
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ECONNREFUSED' || errno === 'ENOENT') return 'dead';
    // Anything else (no right to connect, a full backlog) comes of somebody who is there.
    return errno === 'ECONNRESET' || errno === 'EPIPE' ? 'hung up' : 'silent';
  }
  if (text === '') return 'hung up';
  const answer = Answer.safeParse(tryParseJson(text.split('\n', 1)[0] ?? ''));
  return answer.success ? answer.data : 'silent';
}

function noSocket(error: unknown, directory: string): StoreError {
  const errno = errnoOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return errno === 'EACCES' || errno === 'EROFS' || errno === 'ENOSPC'
    ? new StoreError(`cannot make a socket in ${directory}: ${message}`, 'make the directory writable', {
        cause: error,
      })
    : new StoreError(
        `the file system of ${directory} cannot hold a socket, which keeps two servers apart: ${message}`,
        'choose a directory on a local disk with --data',
        { cause: error },
      );
}
