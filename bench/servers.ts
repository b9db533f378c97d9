import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab } from './lab.ts';

const PATIENCE_MILLISECONDS = 60_000;
const POLL_MILLISECONDS = 2;

/** The built command, and the file of a peer. */
export const pets = join(import.meta.dirname, '..', 'dist', 'pets.js');
export const peer = (name: string): string => join(import.meta.dirname, 'peers', name);

/** The service with a key of plan enterprise, on a free port. */
export const serve = (...options: string[]): string[] => [
  pets,
  ...'serve --json --quiet --no-profile --plan enterprise --port 0'.split(' '),
  ...options,
];

export type Server = {
  pid: number;
  /** With the path that its `/pets` is under. */
  url: string;
  key: string;
  /** From its start to its first 200. */
  milliseconds: number;
  stop(): Promise<void>;
};

type Launch = {
  /** What Node runs. */
  args: readonly string[];
  /** What the command begins with. */
  prefix?: readonly string[] | undefined;
  /** Where it will listen; a server without it tells so in its first line, `{"url","key"}`. */
  url?: string;
};

/** @throws where it ends before it answers */
export async function start(lab: Lab, { args, prefix = [], url: known }: Launch): Promise<Server> {
  const started = performance.now();
  const child = lab.spawn([...prefix, process.execPath, ...args], {
    stdio: ['ignore', known ? 'ignore' : 'pipe', known ? 'ignore' : 'inherit'],
  });
  const ended = once(child, 'close');
  const tooEarly = ended.then(([code]) => {
    throw new Error(`${args.join(' ')} ended with ${code} before it answered`);
  });
  tooEarly.catch(() => {});
  const { url, key } = known ? { url: known, key: 'any' } : await Promise.race([firstLine(child), tooEarly]);
  await Promise.race([firstAnswer(url, key), tooEarly]);
  return {
    pid: child.pid ?? Number.NaN,
    url,
    key,
    milliseconds: performance.now() - started,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Milliseconds until a server answers; it is stopped then. */
export async function ready(launch: () => Promise<Server>): Promise<number> {
  const { milliseconds, stop } = await launch();
  await stop();
  return milliseconds;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

async function firstLine({ stdout }: { stdout: Readable | null }): Promise<{ url: string; key: string }> {
  const [line] = await once(createInterface({ input: stdout as Readable }), 'line');
  return { key: 'any', ...JSON.parse(line) };
}

async function firstAnswer(url: string, key: string): Promise<void> {
  const headers = { Authorization: `Bearer ${key}` };
  const deadline = performance.now() + PATIENCE_MILLISECONDS;
  while (performance.now() < deadline) {
    const reply = await fetch(`${url}/pets`, { headers }).catch(() => undefined);
    await reply?.arrayBuffer();
    if (reply?.ok) return;
    await sleep(POLL_MILLISECONDS);
  }
  throw new Error(`${url}/pets did not answer within ${PATIENCE_MILLISECONDS / 1000} s`);
}
